// Makers of HTML and SVG elements, and what several painters measure by.
export const html = (tag, attributes, ...children) => furnished(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => furnished(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
export const button = (words, click, attributes) => html("button", { type: "button", click, ...attributes }, words);

// Attributes by name, functions being what is done at that event; then what the element holds.
function furnished(element, attributes = {}, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const percent = (share) => `${100 * share}%`;
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
export const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
export const EMPTY = 255; // the code of a cell without a value

// Pixels per step of the layout: 1 at a root size of 16, more where the page's type is larger.
export const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
export const letter = () => 7 * unit(); // an average letter at the labels' size

// Ticks that would touch the one before are left out.
export function spaced(ticks, long, tall = 0) {
  let free = -Infinity;
  return ticks.filter(([share, text]) => {
    const half = tall / 2 || (text.length * letter()) / 2 + 4;
    if (share === null || share * long - half < free) return false;
    free = share * long + half;
    return true;
  });
}

// The rows and columns by which an arrow key moves, ten with shift; nothing for other keys.
export function arrowKey(event) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (by) event.preventDefault();
  return by?.map((step) => step * (event.shiftKey ? 10 : 1));
}

// The sample of a line, a vector or a role beside its words.
export function keyEntry(className, name, dash = "", text = "") {
  const line = svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-dasharray": dash });
  const swatch = svg("svg", { width: 26, height: 10, "aria-hidden": true }, svg("g", { class: className }, line));
  const number = text ? [html("span", { class: "number" }, text)] : [];
  return html("li", {}, swatch, html("span", {}, name), ...number);
}
