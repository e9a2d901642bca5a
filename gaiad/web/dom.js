// Makes elements; what a model or a packet says goes in as text only, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties (`class`, `data`, `onclick`, any attribute; false and null leave one out) and children. */
export function el(name, properties = {}, ...children) {
  return furnish(document.createElement(name), properties, children);
}

/** The same for a drawing. */
export function svg(name, properties = {}, ...children) {
  return furnish(document.createElementNS(SVG, name), properties, children);
}

/** One of the small drawings in index.html. */
export function icon(name) {
  return svg("svg", { class: "icon", "aria-hidden": "true", focusable: "false" }, svg("use", { href: `#i-${name}` }));
}

/** Put these in the place of all that a node holds. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function button(words, onclick, properties = {}) {
  return el("button", { type: "button", onclick, ...properties }, words);
}

function furnish(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.setAttribute("class", value);
    else if (key === "data") Object.assign(node.dataset, value);
    else if (key === "value") node.value = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  return fill(node, ...children);
}
