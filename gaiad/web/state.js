// What the page stores in this browser: tenant, drafts, unsent messages, choices, theme.

const PREFIX = "gaiad.";

export function recall(key, otherwise = null) {
  try {
    const text = localStorage.getItem(PREFIX + key);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise; // storage is disabled, or another version wrote it
  }
}

export function keep(key, value) {
  try {
    if (value === null || value === "" || (Array.isArray(value) && !value.length)) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // storage is full or disabled: the page works without it
  }
}

let current = recall("tenant", "local");

export const tenant = () => current;

export function chooseTenant(name) {
  current = name;
  keep("tenant", name);
}

export const draftKey = (session) => `draft.${current}.${session || "new"}`;
export const outboxKey = () => `outbox.${current}`;
