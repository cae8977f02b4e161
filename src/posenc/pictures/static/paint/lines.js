// Curves in SVG: positions are fractions of the axes, and names are written at the ends of the curves.
import { tween } from "../motion.js";
import { clamp, keyEntry, letter, spaced, svg, unit } from "./elements.js";
import { Panel } from "./panel.js";

const APART = 8; // computed points are drawn as dots if they are at least this many pixels apart
const SAME = 0.005; // curves that end within this share of the height share one name
const EARLY = 0.97; // a curve that ends before this share of the width has its name at its end

export class Lines extends Panel {
  static kind = "lines";
  at = null;
  shown = [];
  stop = () => {};

  paint() {
    const { panel, fresh, shown: before } = this;
    this.every = panel.between + 1; // every n-th point is computed; the points between make a line smooth
    this.field.setAttribute("aria-label", `${panel.name}: ${panel.lines.length} curves of ${panel.y.label} over ${panel.x.label}. Left and right arrow keys read values.`);
    const u = unit();
    const width = Math.max(200, this.field.clientWidth);
    const every = this.ends();
    const ends = together(every);
    const longest = Math.max(...ends.map((end) => end.name.length)) * letter() + 20 * u;
    const touch = (a, b) => a !== b && Math.max(a.across, b.across) < EARLY && Math.abs(a.across - b.across) * width < longest / 2 && Math.abs(a.share - b.share) < 0.04;
    const named = longest < width * 0.34 && !ends.some((a) => ends.some((b) => touch(a, b)));
    const sample = ({ colour, name, dash }) => (panel.apart && colour !== "level" ? keyEntry(`dots ${colour}`, name, "0 13") : keyEntry(`curve ${colour}`, name, dash));
    this.key.replaceChildren(...(named || every.length < 2 ? [] : every).map(sample));
    const height = Math.max(120 * u, this.field.clientHeight);
    const wideTick = Math.max(...panel.y.ticks.map(([, text]) => text.length)) * letter();
    const [, last] = panel.x.ticks.at(-1) ?? [0, ""];
    const right = width - (named ? longest : Math.max(14 * u, (last.length * letter()) / 2 + 4 * u));
    this.box = { left: Math.max(26 * u, wideTick + 14 * u), right, top: (panel.marks.length ? 54 : 34) * u, bottom: height - 44 * u, u, width, height };
    this.curves = panel.lines.map((line) => svg("path", { class: `curve ${line.colour}${line.hollow ? " hollow" : ""}`, "stroke-dasharray": panel.lines.length > 1 ? line.dash : "" }));
    this.dots = panel.lines.map((line) => svg("path", { class: `dots ${line.colour}` }));
    this.rule = svg("path", { class: "cursor", visibility: "hidden" });
    const regions = panel.lines.filter((line) => line.low).map((line) => svg("path", { class: `region ${line.colour}`, d: this.region(line) }));
    const inside = [...this.axes(), ...regions, ...this.curves, ...this.dots, ...this.marks(), ...(named ? this.named(ends) : []), this.rule];
    this.field.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": true }, ...inside));
    this.stop();
    const after = panel.lines.map((line) => line.y);
    // If no curve changes its number of points, the change is animated; otherwise, it is immediate.
    const alike = fresh && before.length === after.length && before.every((y, i) => y.length === after[i].length);
    const on = (from, to, share) => (to === null || from === null ? to : from + share * (to - from));
    if (alike) this.stop = tween((share) => this.draw(after.map((y, i) => y.map((to, j) => on(before[i][j], to, share)))));
    else this.draw(after);
  }

  x(share) { return this.box.left + share * (this.box.right - this.box.left); }

  y(share) { return this.box.bottom - share * (this.box.bottom - this.box.top); }

  spot(xShare, yShare) { return `${this.x(xShare).toFixed(1)} ${this.y(yShare).toFixed(1)}`; }

  axes() {
    const { x, y } = this.panel;
    const { left, right, top, bottom, height, u } = this.box;
    const rows = spaced(y.ticks, bottom - top, 13 * u).map(([share, text]) => [this.y(share), text]);
    const columns = spaced(x.ticks, right - left).map(([share, text]) => [this.x(share), text]);
    return [
      ...rows.flatMap(([at, text]) => [svg("path", { class: "grid", d: `M${left} ${at}H${right}` }), svg("text", { x: left - 8 * u, y: at, class: "tick end" }, text)]),
      ...columns.flatMap(([at, text]) => [svg("path", { class: "notch", d: `M${at} ${bottom}v${5 * u}` }), svg("text", { x: at, y: bottom + 16 * u, class: "tick middle" }, text)]),
      svg("path", { class: "rule", d: `M${left} ${bottom}H${right}` }),
      ...this.levels().map(({ share, colour, dash }) => svg("path", { class: `curve ${colour}`, "stroke-dasharray": dash, d: `M${left} ${this.y(share)}H${right}` })),
      svg("text", { x: (left + right) / 2, y: height - 8 * u, class: "axis middle" }, x.label),
      svg("text", { x: 0, y: 10 * u, class: "axis" }, y.label),
    ];
  }

  // Vertical marks, each with its caption to the right, or to the left if there is no room.
  marks() {
    const { top, bottom, width, u } = this.box;
    return this.panel.marks.filter(([share]) => share !== null).flatMap(([share, caption]) => {
      const long = caption.length * letter();
      const from = this.x(share) + 6 * u + long < width ? this.x(share) + 6 * u : this.x(share) - 6 * u - long;
      const words = { x: clamp(from, 0, Math.max(0, width - long)), y: top - 15 * u, class: "caption" };
      return [svg("path", { class: "mark", d: `M${this.x(share)} ${top - 21 * u}V${bottom}` }), svg("text", words, caption)];
    });
  }

  draw(shown) {
    this.shown = shown;
    const { apart, x: { at } } = this.panel;
    shown.forEach((ys, i) => {
      let pen = "M";
      const path = ys.map((share, j) => {
        const step = share === null || at[j] === null ? "" : `${pen}${this.spot(at[j], share)}`;
        pen = step ? "L" : "M";
        return step;
      });
      this.curves[i].setAttribute("d", apart ? "" : path.join(""));
      const held = ys.map((_, j) => j).filter((j) => j % this.every === 0 && ys[j] !== null);
      const wide = (this.box.right - this.box.left) / (ys.length / this.every);
      if (apart || wide >= APART) this.dots[i].setAttribute("d", held.map((j) => `M${this.spot(at[j], ys[j])}h0`).join(""));
    });
  }

  // The band between a line's bounds: left to right along the upper bound, and back along the lower.
  region({ low, high }) {
    const { at } = this.panel.x;
    const held = at.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null);
    const round = [...held.map((i) => this.spot(at[i], high[i])), ...held.reverse().map((i) => this.spot(at[i], low[i]))];
    return held.length > 1 ? `M${round.join("L")}Z` : "";
  }

  levels() {
    return this.panel.levels.filter(([share]) => share !== null).map(([share, name]) => ({ name, share, across: 1, colour: "level", dash: "4 3" }));
  }

  // The right end of every curve and level, with its name and style.
  ends() {
    const { lines, x } = this.panel;
    const curves = lines.map(({ name, colour, dash, y }) => {
      const last = y.findLastIndex((share) => share !== null);
      return { name, colour, dash, share: y[last] ?? 0, across: x.at[last] ?? 1 };
    });
    return [...curves, ...this.levels()];
  }

  // Move names that would overlap down, and names that would leave the picture up; a leader joins each to its curve.
  named(ends) {
    const { u, right, bottom } = this.box;
    const leaves = ({ across }) => across < EARLY;
    const late = ends.filter((end) => !leaves(end)).map((end) => ({ ...end, at: this.y(end.share) }));
    late.sort((a, b) => a.at - b.at);
    const lowest = bottom + 6 * u;
    const gap = Math.min(17 * u, lowest / late.length);
    for (let i = 1; i < late.length; i += 1) late[i].at = Math.max(late[i].at, late[i - 1].at + gap);
    late.forEach((end, i) => { end.at = Math.min(end.at, lowest - (late.length - 1 - i) * gap); });
    return [
      ...ends.filter(leaves).map(({ name, across, share }) => svg("text", { x: this.x(across) + 7 * u, y: this.y(share) - 8 * u, class: "name-end" }, name)),
      ...late.flatMap(({ name, colour, share, at }) => [
        svg("path", { class: `leader ${colour}`, d: `M${right} ${this.y(share)}L${right + 12 * u} ${at}` }),
        svg("text", { x: right + 16 * u, y: at, class: "name-end" }, name),
      ]),
    ];
  }

  pointermove(event) {
    const share = (event.clientX - this.field.getBoundingClientRect().left - this.box.left) / (this.box.right - this.box.left);
    const far = this.panel.x.at.map((at) => Math.abs(at - share));
    this.stand(Math.round(far.indexOf(Math.min(...far)) / this.every) * this.every);
  }

  pointerleave() { this.rule?.setAttribute("visibility", "hidden"); }

  stand(index) {
    this.rule.setAttribute("d", `M${this.x(this.panel.x.at[index])} ${this.box.top}V${this.box.bottom}`);
    this.rule.setAttribute("visibility", "visible");
    if (this.at === index) return;
    this.at = index;
    this.look(0, index);
  }

  keydown(event) {
    const last = this.panel.x.at.length - 1;
    const far = (event.shiftKey ? 10 : 1) * this.every;
    const at = this.at ?? -this.every;
    const next = { ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.stand(clamp(next, 0, last));
  }
}

// Curves that end at the same place share one label, which lists their names.
function together(ends) {
  const places = [];
  for (const end of ends.toSorted((a, b) => a.share - b.share)) {
    const last = places.at(-1);
    if (last && last.across === end.across && end.share - last.share < SAME) last.name += `, ${end.name}`;
    else places.push({ ...end });
  }
  return places;
}
