// Small drawings of numbers in SVG: a meter, a range on a logarithmic scale, an effect, stacked columns. Pure.

import { el, svg } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 190;
const LEFT = 46;
const BOTTOM = 20;
const TOP = 10;
const LEAST_PLACES = 12;

/** How much of `most` a value is. */
export function meter(value, most, label) {
  const share = most > 0 ? Math.max(0, Math.min(1, value / most)) : 0;
  return svg(
    "svg",
    { class: "meter", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${Math.round(share * 100)} %` },
    svg("rect", { class: "meter-ground", width: 100, height: 8, rx: 1 }),
    svg("rect", { class: "meter-value", width: (share * 100).toFixed(2), height: 8, rx: 1 }),
  );
}

/** From p50 to p95 between `least` and `most` milliseconds, on a logarithmic scale. */
export function range({ p50, p95, label }, least, most) {
  const at = (value) => (100 * Math.log(Math.max(value, least) / least)) / Math.log(most / least);
  const [from, to] = [at(p50), at(p95)];
  const ticks = [];
  for (let tick = least * 10; tick < most; tick *= 10) ticks.push(svg("line", { class: "tick", x1: at(tick), x2: at(tick), y1: 0, y2: 14 }));
  return svg(
    "svg",
    { class: "range", viewBox: "0 0 100 14", preserveAspectRatio: "none", role: "img", "aria-label": label },
    ticks,
    svg("line", { class: "range-line", x1: from, x2: to, y1: 7, y2: 7 }),
    svg("line", { class: "range-end p95", x1: to, x2: to, y1: 7, y2: 7 }),
    svg("line", { class: "range-end p50", x1: from, x2: from, y1: 7, y2: 7 }),
  );
}

/** An effect between -1 and 1 with its interval; the line in the middle is none. */
export function effect(value, [low, high], label) {
  const at = (number) => 50 + 50 * Math.max(-1, Math.min(1, number));
  return svg(
    "svg",
    { class: "range effect", viewBox: "0 0 100 14", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("line", { class: "tick", x1: 50, x2: 50, y1: 0, y2: 14 }),
    svg("line", { class: "range-line", x1: at(low), x2: at(high), y1: 7, y2: 7 }),
    svg("line", { class: "range-end p50", x1: at(value), x2: at(value), y1: 7, y2: 7 }),
  );
}

/**
 * Stacked columns, the oldest left. `columns` are {name, values} with a value for each of `series` ({key, label});
 * `written` puts a value into words.
 */
export function stacked(title, series, columns, written) {
  const most = niceTop(Math.max(...columns.map((column) => sum(column.values)), 1));
  const height = HEIGHT - TOP - BOTTOM;
  const places = Math.max(columns.length, LEAST_PLACES);
  const step = (WIDTH - LEFT) / places;
  const bar = Math.min(step * 0.68, 26);
  const y = (value) => TOP + height * (1 - value / most);
  const axis = [0, 0.5, 1].map((share) => [
    svg("line", { class: "tick", x1: LEFT, x2: WIDTH, y1: y(most * share), y2: y(most * share) }),
    svg("text", { class: "axis", x: LEFT - 6, y: y(most * share) + 4, "text-anchor": "end" }, written(most * share)),
  ]);
  const bars = columns.map((column, number) => {
    let under = 0;
    const x = LEFT + (places - columns.length + number) * step + (step - bar) / 2;
    const parts = series.map(({ key, label }, layer) => {
      const value = column.values[layer];
      const part = svg("rect", { class: `series ${key}`, x: x.toFixed(1), width: bar.toFixed(1), y: y(under + value).toFixed(2), height: Math.max(0, (height * value) / most).toFixed(2) }, svg("title", {}, `${column.name}: ${label} ${written(value)}`));
      under += value;
      return part;
    });
    return svg("g", {}, parts);
  });
  return el(
    "figure",
    { class: "chart" },
    el("figcaption", {}, title, el("span", { class: "legend" }, series.map(({ key, label }) => el("span", { class: `legend-entry ${key}` }, label)))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}; the table beside it has the numbers` }, axis, bars, svg("text", { class: "axis", x: LEFT, y: HEIGHT - 4 }, "older"), svg("text", { class: "axis", x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, "newest")),
  );
}

/** A table of numbers; all columns but the first are numbers. */
export function table(caption, head, rows, { visible = false } = {}) {
  return el(
    "table",
    { class: "table" },
    el("caption", { class: visible ? null : "unseen" }, caption),
    el("thead", {}, el("tr", {}, head.map((name, column) => el("th", { scope: "col", class: column ? "number" : null }, name)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, column) => (column ? el("td", { class: "number" }, cell) : el("th", { scope: "row" }, cell)))))),
  );
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** The next round number: 1, 2 or 5 times a power of ten. */
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}
