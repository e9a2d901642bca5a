// What the page remembers in this browser: tenant, drafts, messages not sent yet, choices, theme.

const PREFIX = "gaiad.";

export function recall(key, otherwise = null) {
  try {
    const text = localStorage.getItem(PREFIX + key);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise; // a browser that keeps nothing, or something of another version
  }
}

export function keep(key, value) {
  try {
    if (value === null || value === "" || (Array.isArray(value) && !value.length)) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // full or forbidden: the page works on without it
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
