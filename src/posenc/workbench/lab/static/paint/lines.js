// Curves in SVG: places come as fractions of the axes, names stand at the lines' ends.
import { tween } from "../motion.js";
import { clamp, html, keyEntry, letter, svg, unit } from "./elements.js";

const DOTTED = 65; // up to so many places that an encoding has are dots

export class Lines {
  constructor({ look }) {
    this.look = look;
    this.element = html("div", "panel lines");
    this.name = html("div", "name");
    this.field = html("div", "field");
    this.field.tabIndex = 0;
    this.field.setAttribute("role", "application");
    this.field.setAttribute("aria-roledescription", "chart");
    this.key = html("ul", "key");
    this.element.append(this.name, this.field, this.key);
    this.at = null;
    this.shown = [];
    this.stop = () => {};
    this.field.addEventListener("pointermove", (event) => this.point(event));
    this.field.addEventListener("pointerleave", () => this.rule?.setAttribute("visibility", "hidden"));
    this.field.addEventListener("keydown", (event) => this.keydown(event));
  }

  paint(panel) {
    const before = this.shown;
    const fresh = this.panel !== panel;
    this.panel = panel;
    this.name.textContent = panel.name;
    this.field.setAttribute("aria-label", `${panel.name}: ${panel.lines.length} curves of ${panel.y.label} over ${panel.x.label}. Left and right arrow keys read values.`);
    const u = unit();
    const width = Math.max(200, this.field.clientWidth);
    const longest = Math.max(...panel.lines.map((line) => line.name.length)) * letter() + 20 * u;
    const named = longest < width * 0.34;
    this.key.replaceChildren(...(named || panel.lines.length < 2 ? [] : panel.lines.map((line) => keyEntry(`curve ${line.colour}`, line.name, line.dash))));
    const height = Math.max(120 * u, this.field.clientHeight);
    const wideTick = Math.max(...panel.y.ticks.map(([, text]) => text.length)) * letter();
    const right = width - (named ? longest : 14 * u);
    this.box = { left: Math.max(26 * u, wideTick + 10 * u), right, top: (panel.marks.length ? 54 : 34) * u, bottom: height - 44 * u, u };
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    this.axes(picture, width, height);
    this.curves = panel.lines.map((line) => this.curve(picture, line));
    if (named) this.names(picture);
    this.rule = svg("line", { class: "cursor", y1: this.box.top, y2: this.box.bottom, visibility: "hidden" });
    picture.append(this.rule);
    this.field.replaceChildren(picture);
    this.stop();
    const ends = panel.lines.map((line) => line.y);
    // What keeps its number of points goes over into the new; anything else is simply there.
    const alike = fresh && before.length === ends.length && before.every((y, i) => y.length === ends[i].length);
    if (alike) this.stop = tween((share) => this.draw(ends.map((y, i) => y.map((to, j) => (to === null || before[i][j] === null ? to : before[i][j] + share * (to - before[i][j]))))));
    else this.draw(ends);
  }

  x(share) { return this.box.left + share * (this.box.right - this.box.left); }

  y(share) { return this.box.bottom - share * (this.box.bottom - this.box.top); }

  axes(picture, width, height) {
    const { panel } = this;
    const { left, right, top, bottom, u } = this.box;
    for (const [share, text] of spaced(panel.y.ticks, bottom - top, 13 * u)) {
      picture.append(svg("line", { class: "grid", x1: left, x2: right, y1: this.y(share), y2: this.y(share) }));
      picture.append(svg("text", { x: left - 8 * u, y: this.y(share), class: "tick end" }, text));
    }
    for (const [share, text] of spaced(panel.x.ticks, right - left)) {
      picture.append(svg("line", { class: "notch", x1: this.x(share), x2: this.x(share), y1: bottom, y2: bottom + 5 * u }));
      picture.append(svg("text", { x: this.x(share), y: bottom + 16 * u, class: "tick middle" }, text));
    }
    picture.append(svg("line", { class: "rule", x1: left, x2: right, y1: bottom, y2: bottom }));
    picture.append(svg("text", { x: (left + right) / 2, y: height - 8 * u, class: "axis middle" }, panel.x.label));
    picture.append(svg("text", { x: 0, y: 10 * u, class: "axis" }, panel.y.label));
    for (const [share, caption] of panel.marks) {
      if (share === null) continue;
      picture.append(svg("line", { class: "mark", x1: this.x(share), x2: this.x(share), y1: top - 21 * u, y2: bottom }));
      // Beside the mark, on the side with room; never beyond the picture.
      const long = caption.length * letter();
      const from = share < 0.5 ? this.x(share) + 6 * u : this.x(share) - 6 * u - long;
      picture.append(svg("text", { x: clamp(from, 0, Math.max(0, width - long)), y: top - 15 * u, class: "caption" }, caption));
    }
    for (const [share, caption] of panel.levels ?? []) {
      if (share === null) continue;
      picture.append(svg("line", { class: "level", x1: left, x2: right, y1: this.y(share), y2: this.y(share) }));
      picture.append(svg("text", { x: right - 4 * u, y: this.y(share) - 8 * u, class: "caption end" }, caption));
    }
  }

  curve(picture, line) {
    if (line.low) picture.append(svg("path", { class: `region ${line.colour}`, d: region(this.panel.x.at, line, this) }));
    const path = svg("path", { class: `curve ${line.colour}${line.hollow ? " hollow" : ""}`, "stroke-dasharray": line.dash });
    const dots = svg("path", { class: `dots ${line.colour}` });
    picture.append(path, dots);
    return { path, dots };
  }

  draw(shown) {
    this.shown = shown;
    const xs = this.panel.x.at;
    const every = (this.panel.between ?? 0) + 1;
    shown.forEach((ys, i) => {
      this.curves[i].path.setAttribute("d", path(xs, ys, this));
      const at = ys.map((_, j) => j).filter((j) => j % every === 0 && ys[j] !== null);
      if (at.length <= DOTTED) this.curves[i].dots.setAttribute("d", at.map((j) => `M${this.x(xs[j]).toFixed(1)} ${this.y(ys[j]).toFixed(1)}h0`).join(""));
    });
  }

  names(picture) {
    const ends = this.panel.lines.map((line, i) => ({ line, i, at: this.y(line.y.findLast((v) => v !== null) ?? 0) }));
    ends.sort((a, b) => a.at - b.at);
    const { u, right, bottom } = this.box;
    const gap = Math.min(17 * u, (bottom + 6 * u) / ends.length);
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
    const every = (this.panel.between ?? 0) + 1;
    this.move(Math.round(best / every) * every);
  }

  move(index) {
    const place = this.x(this.panel.x.at[index]);
    this.rule.setAttribute("x1", place);
    this.rule.setAttribute("x2", place);
    this.rule.setAttribute("visibility", "visible");
    if (this.at === index) return;
    this.at = index;
    this.look(0, index);
  }

  keydown(event) {
    const every = (this.panel.between ?? 0) + 1;
    const last = this.panel.x.at.length - 1;
    const far = (event.shiftKey ? 10 : 1) * every;
    const at = this.at ?? -every;
    const next = { ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.move(clamp(next, 0, last));
  }
}

function path(xs, ys, chart) {
  let pen = "M";
  let d = "";
  ys.forEach((share, i) => {
    if (share === null || xs[i] === null) { pen = "M"; return; }
    d += `${pen}${chart.x(xs[i]).toFixed(1)} ${chart.y(share).toFixed(1)}`;
    pen = "L";
  });
  return d;
}

// The band between a line's bounds, out along the upper and back along the lower.
function region(xs, line, chart) {
  const held = xs.map((_, i) => i).filter((i) => line.low[i] !== null && line.high[i] !== null);
  const out = held.map((i) => `${chart.x(xs[i]).toFixed(1)} ${chart.y(line.high[i]).toFixed(1)}`);
  const back = held.map((i) => `${chart.x(xs[i]).toFixed(1)} ${chart.y(line.low[i]).toFixed(1)}`).reverse();
  return held.length > 1 ? `M${[...out, ...back].join("L")}Z` : "";
}

// Ticks that would touch the one before are left out.
function spaced(ticks, long, tall = 0) {
  let free = -Infinity;
  return ticks.filter(([share, text]) => {
    const half = tall / 2 || (text.length * letter()) / 2 + 4;
    if (share === null || share * long - half < free) return false;
    free = share * long + half;
    return true;
  });
}
