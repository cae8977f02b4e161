// The bar that says which colour is which value.
import { html } from "./elements.js";

export function legend(panel, steps) {
  const element = html("div", "legend");
  const bar = html("canvas", "bar");
  const [first, last] = panel.span;
  bar.width = last - first + 1;
  bar.height = 1;
  bar.setAttribute("aria-hidden", "true");
  const context = bar.getContext("2d");
  steps.slice(first, last + 1).forEach(([r, g, b], i) => {
    context.fillStyle = `rgb(${r} ${g} ${b})`;
    context.fillRect(i, 0, 1, 1);
  });
  const ends = html("div", "ends");
  panel.legend.forEach((text) => ends.append(html("span", "", text)));
  element.append(bar, ends);
  return element;
}
