// Creates elements. Untrusted text is never markup, and its invisible characters are made visible.

import { inPlain, partsOf } from "./hidden_signs.js";

const SVG = "http://www.w3.org/2000/svg";
const READ = ["title", "aria-label", "placeholder"]; // attributes that people read

/** An element with properties (`class`, `data`, `onclick`, any attribute; false and null leave one out) and children. */
export function el(name, properties = {}, ...children) {
  return furnish(document.createElement(name), properties, children);
}

/** The same for SVG. */
export function svg(name, properties = {}, ...children) {
  return furnish(document.createElementNS(SVG, name), properties, children);
}

/** One of the icons in index.html. */
export function icon(name) {
  return svg("svg", { class: "icon", "aria-hidden": "true", focusable: "false" }, svg("use", { href: `#i-${name}` }));
}

/** Replaces a node's children. */
export function fill(node, ...children) {
  const there = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  node.replaceChildren(...there.flatMap((child) => (typeof child === "string" ? partsOf(child).map(shown) : [child])));
  return node;
}

export function button(words, onclick, properties = {}) {
  return el("button", { type: "button", onclick, ...properties }, words);
}

/** An invisible character is shown as a badge with its code point. */
function shown(part) {
  return typeof part === "string" ? part : el("span", { class: "hidden-sign", title: "An invisible character is here" }, part.sign);
}

function furnish(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.setAttribute("class", value);
    else if (key === "data") Object.assign(node.dataset, value);
    else if (key === "value") node.value = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : READ.includes(key) ? inPlain(String(value)) : String(value));
  }
  return fill(node, ...children);
}
