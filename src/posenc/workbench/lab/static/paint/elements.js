// Small makers of HTML and SVG elements, and what several painters measure by.
export function html(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

export function svg(tag, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

export function cell(tag, text, scope) {
  const element = html(tag, "", text);
  if (scope) element.scope = scope;
  return element;
}

export const percent = (share) => `${100 * share}%`;
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
export const EMPTY = 255; // the code of a cell without a value

// Pixels per step of the layout: 1 at a root size of 16, more where the page's type is larger.
export const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
export const letter = () => 7 * unit(); // an average letter at the labels' size

// The sample of a line, a vector or a role beside its words.
export function keyEntry(className, name, dash = "", text = "") {
  const entry = html("li");
  const swatch = svg("svg", { width: 26, height: 10, "aria-hidden": "true" });
  const group = svg("g", { class: className });
  group.append(svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-dasharray": dash }));
  swatch.append(group);
  entry.append(swatch, html("span", "", name));
  if (text) entry.append(html("span", "number", text));
  return entry;
}
