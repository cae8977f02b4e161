// Curves in SVG: places come as fractions of the axes, names stand at the lines' ends.
import { html, svg } from "./elements.js";

// Pixels per step of the layout: 1 at a root size of 16, more where the page's type is larger.
const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
const letter = () => 7 * unit(); // an average letter at the labels' size

export class Lines {
  constructor(look) {
    this.look = look;
    this.element = html("div", "panel lines");
    this.name = html("p", "name");
    this.field = html("div", "field");
    this.field.tabIndex = 0;
    this.field.setAttribute("role", "application");
    this.field.setAttribute("aria-roledescription", "chart");
    this.key = html("ul", "key");
    this.element.append(this.name, this.field, this.key);
    this.at = null;
    this.field.addEventListener("pointermove", (event) => this.point(event));
    this.field.addEventListener("pointerleave", () => this.rule?.setAttribute("visibility", "hidden"));
    this.field.addEventListener("keydown", (event) => this.keydown(event));
  }

  paint(panel) {
    this.panel = panel;
    this.name.textContent = panel.name;
    this.field.setAttribute("aria-label", `${panel.name}: ${panel.lines.length} curves of ${panel.y.label} over ${panel.x.label}. Left and right arrow keys read values.`);
    const u = unit();
    const width = Math.max(240, this.field.clientWidth);
    const longest = Math.max(...panel.lines.map((line) => line.name.length)) * letter() + 20 * u;
    const named = longest < width * 0.34;
    const height = Math.round(Math.min(430 * u, Math.max(230 * u, width * 0.52)));
    const wideTick = Math.max(...panel.y.ticks.map(([, text]) => text.length)) * letter();
    const right = width - (named ? longest : 14 * u);
    this.box = { left: Math.max(26 * u, wideTick + 10 * u), right, top: (panel.marks.length ? 54 : 34) * u, bottom: height - 48 * u, u };
    const { left, top, bottom } = this.box;
    const x = (share) => left + share * (right - left);
    const y = (share) => bottom - share * (bottom - top);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    for (const [share, text] of panel.y.ticks) {
      picture.append(svg("line", { class: "grid", x1: left, x2: right, y1: y(share), y2: y(share) }));
      picture.append(svg("text", { x: left - 8 * u, y: y(share), class: "tick end" }, text));
    }
    for (const [share, text] of spaced(panel.x.ticks, right - left)) {
      picture.append(svg("line", { class: "notch", x1: x(share), x2: x(share), y1: bottom, y2: bottom + 5 * u }));
      picture.append(svg("text", { x: x(share), y: bottom + 16 * u, class: "tick middle" }, text));
    }
    picture.append(svg("line", { class: "rule", x1: left, x2: right, y1: bottom, y2: bottom }));
    picture.append(svg("text", { x: (left + right) / 2, y: height - 10 * u, class: "axis middle" }, panel.x.label));
    picture.append(svg("text", { x: 0, y: 10 * u, class: "axis" }, panel.y.label));
    for (const [share, caption] of panel.marks) {
      if (share === null || share < 0 || share > 1) continue;
      picture.append(svg("line", { class: "mark", x1: x(share), x2: x(share), y1: top - 21 * u, y2: bottom }));
      // Beside the mark, on the side with room; never beyond the picture.
      const long = caption.length * letter();
      const from = share < 0.5 ? x(share) + 6 * u : x(share) - 6 * u - long;
      picture.append(svg("text", { x: Math.max(0, Math.min(from, width - long)), y: top - 15 * u, class: "caption" }, caption));
    }
    panel.lines.forEach((line) => {
      if (line.low) picture.append(svg("path", { class: `region ${line.colour}`, d: region(panel.x.at, line, x, y) }));
      picture.append(svg("path", { class: `curve ${line.colour}${line.hollow ? " hollow" : ""}`, d: path(panel.x.at, line.y, x, y), "stroke-dasharray": line.dash }));
    });
    if (named) this.names(picture, y);
    this.key.replaceChildren(...(named || panel.lines.length < 2 ? [] : panel.lines.map(keyEntry)));
    this.rule = svg("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
    picture.append(this.rule);
    this.field.replaceChildren(picture);
  }

  names(picture, y) {
    const ends = this.panel.lines.map((line, i) => ({ line, i, at: y(line.y.findLast((v) => v !== null) ?? 0) }));
    ends.sort((a, b) => a.at - b.at);
    const { u, right, bottom } = this.box;
    const gap = 17 * u;
    // Names that would touch move down, and all of them up again where they would leave the picture.
    for (let i = 1; i < ends.length; i += 1) ends[i].at = Math.max(ends[i].at, ends[i - 1].at + gap);
    ends.forEach((end, i) => { end.at = Math.min(end.at, bottom + 6 * u - (ends.length - 1 - i) * gap); });
    for (const { line, at } of ends) {
      picture.append(svg("circle", { class: `dot ${line.colour}`, cx: right + 8 * u, cy: at, r: 3.5 * u }));
      picture.append(svg("text", { x: right + 16 * u, y: at, class: "name-end" }, line.name));
    }
  }

  point(event) {
    const box = this.field.getBoundingClientRect();
    const share = (event.clientX - box.left - this.box.left) / (this.box.right - this.box.left);
    let best = 0;
    this.panel.x.at.forEach((at, i) => { if (Math.abs(at - share) < Math.abs(this.panel.x.at[best] - share)) best = i; });
    this.move(best);
  }

  move(index) {
    const place = this.box.left + this.panel.x.at[index] * (this.box.right - this.box.left);
    this.rule.setAttribute("x1", place);
    this.rule.setAttribute("x2", place);
    this.rule.setAttribute("visibility", "visible");
    if (this.at === index) return;
    this.at = index;
    this.look(0, index);
  }

  keydown(event) {
    const last = this.panel.x.at.length - 1;
    const far = event.shiftKey ? 10 : 1;
    const at = this.at ?? -1;
    const next = { ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.move(Math.min(last, Math.max(0, next)));
  }
}

function path(xs, ys, x, y) {
  let pen = "M";
  let d = "";
  ys.forEach((share, i) => {
    if (share === null || xs[i] === null) { pen = "M"; return; }
    d += `${pen}${x(xs[i]).toFixed(1)} ${y(share).toFixed(1)}`;
    pen = "L";
  });
  return d;
}

// The band between a line's bounds, out along the upper and back along the lower.
function region(xs, line, x, y) {
  const held = xs.map((_, i) => i).filter((i) => line.low[i] !== null && line.high[i] !== null);
  const out = held.map((i) => `${x(xs[i]).toFixed(1)} ${y(line.high[i]).toFixed(1)}`);
  const back = held.map((i) => `${x(xs[i]).toFixed(1)} ${y(line.low[i]).toFixed(1)}`).reverse();
  return held.length > 1 ? `M${[...out, ...back].join("L")}Z` : "";
}

// Ticks that would touch their left neighbour are left out.
function spaced(ticks, width) {
  let free = -Infinity;
  return ticks.filter(([share, text]) => {
    const half = (text.length * letter()) / 2 + 4;
    if (share * width - half < free) return false;
    free = share * width + half;
    return true;
  });
}

function keyEntry(line) {
  const entry = html("li", "");
  const swatch = svg("svg", { width: 26, height: 10, "aria-hidden": "true" });
  swatch.append(svg("line", { class: `curve ${line.colour}`, x1: 0, x2: 26, y1: 5, y2: 5 }));
  entry.append(swatch, html("span", "", line.name));
  return entry;
}
