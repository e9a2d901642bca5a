// Finds invisible characters that have an effect: zero width, direction, control and tag characters. Pure.

// Not `\t`, `\n` and `\r`. The tags of a flag, and joiners in scripts and pictures that are written with them, stay.
const HIDDEN = "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}";
const JOINERS = "\\u200c\\u200d";
const KEPT = `\\u{1f3f4}[\\u{e0030}-\\u{e0039}\\u{e0061}-\\u{e007a}]{1,6}\\u{e007f}|[^\\u0000-\\u009f${JOINERS}${HIDDEN}][${JOINERS}]`;
const ANY = new RegExp(`[${HIDDEN}${JOINERS}]`, "u");
const SIGN = new RegExp(`(${KEPT})|[${HIDDEN}${JOINERS}]`, "gu");

/** The text in parts: plain strings, and {sign: "U+202E"} for each invisible character. */
export function partsOf(text) {
  if (!ANY.test(text)) return [text];
  const parts = [];
  let position = 0;
  for (const match of text.matchAll(SIGN)) {
    if (match[1]) continue;
    if (match.index > position) parts.push(text.slice(position, match.index));
    parts.push({ sign: `U+${match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` });
    position = match.index + match[0].length;
  }
  if (position < text.length) parts.push(text.slice(position));
  return parts;
}

/** The same as one string, for attributes. */
export const inPlain = (text) => partsOf(text).map((part) => (typeof part === "string" ? part : `⟨${part.sign}⟩`)).join("");
