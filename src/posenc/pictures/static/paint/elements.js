// Functions that make HTML and SVG elements, and measures that several painters use.
export const html = (tag, attributes, ...children) => furnished(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => furnished(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
export const button = (words, click, attributes) => html("button", { type: "button", click, ...attributes }, words);

// Set an element's attributes by name (a function is a listener for the event of that name), and append its children.
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

// Pixels per unit of the layout: 1 if the page's font size is 16 pixels, and more if it is larger.
export const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
export const letter = () => 7 * unit(); // the width of an average letter of a label

// The ticks without those that would touch the tick before them.
export function spaced(ticks, long, tall = 0) {
  let free = -Infinity;
  return ticks.filter(([share, text]) => {
    const half = tall / 2 || (text.length * letter()) / 2 + 4;
    if (share === null || share * long - half < free) return false;
    free = share * long + half;
    return true;
  });
}

// The rows and columns by which an arrow key moves, times ten with Shift; undefined for other keys.
export function arrowKey(event) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (by) event.preventDefault();
  return by?.map((step) => step * (event.shiftKey ? 10 : 1));
}

// An entry of a legend: a sample of a line or vector, its name, and an optional number.
export function keyEntry(className, name, dash = "", text = "") {
  const line = svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-dasharray": dash });
  const swatch = svg("svg", { width: 26, height: 10, "aria-hidden": true }, svg("g", { class: className }, line));
  const number = text ? [html("span", { class: "number" }, text)] : [];
  return html("li", {}, swatch, html("span", {}, name), ...number);
}
