// Dark, light, or the system's theme.

import { keep, recall } from "./state.js";

const ORDER = ["system", "light", "dark"];

export const theme = () => recall("theme", "system");

/** Called before the first render. */
export function applyTheme() {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export function nextTheme() {
  const chosen = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
  keep("theme", chosen === "system" ? null : chosen);
  applyTheme();
  return chosen;
}
