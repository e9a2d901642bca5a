// Announces what happened to screen readers, once, without moving the focus.

const LONGEST = 1200;

export function announce(words, { urgent = false } = {}) {
  const place = document.getElementById(urgent ? "said-now" : "said");
  place.textContent = "";
  setTimeout(() => (place.textContent = words.length > LONGEST ? `${words.slice(0, LONGEST)}…` : words), 60);
}
