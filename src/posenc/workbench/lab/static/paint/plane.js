// Vectors in a plane: every arrow lies along +x and is turned, so that a change of angle is seen as a turn.
import { html, svg } from "./elements.js";

const SIZE = 200; // half the picture, in its own units; one limit is REACH of them
const REACH = 168;

export class Plane {
  constructor() {
    this.element = html("div", "panel plane");
    this.name = html("p", "name");
    this.picture = svg("svg", { viewBox: `${-SIZE} ${-SIZE} ${2 * SIZE} ${2 * SIZE}`, role: "img" });
    this.key = html("ul", "key");
    this.element.append(this.name, this.picture, this.key);
    this.arrows = [];
    this.frame();
  }

  frame() {
    this.picture.append(svg("line", { class: "grid", x1: -SIZE, x2: SIZE, y1: 0, y2: 0 }));
    this.picture.append(svg("line", { class: "grid", y1: -SIZE, y2: SIZE, x1: 0, x2: 0 }));
    this.circles = svg("g");
    this.hands = svg("g");
    this.tips = svg("g");
    this.limits = [[REACH, 16, "middle"], [-REACH, 16, "middle"]].map(([x, y, where]) => svg("text", { x, y, class: `tick ${where}` }));
    this.picture.append(this.circles, ...this.limits, this.hands, this.tips);
  }

  paint(panel, count) {
    this.name.textContent = panel.name;
    this.picture.setAttribute("aria-label", `${panel.name}: ${panel.arrows.map((a) => `${a.name} ${a.text}`).join("; ")}`);
    [this.limits[0].textContent, this.limits[1].textContent] = [panel.limit, `−${panel.limit}`];
    const lengths = new Set(panel.arrows.map((arrow) => arrow.length));
    this.circles.replaceChildren(...[...lengths].map((length) => svg("circle", { class: "orbit", r: length * REACH })));
    while (this.arrows.length > panel.arrows.length) this.arrows.pop().group.remove();
    this.tips.replaceChildren();
    panel.arrows.forEach((arrow, i) => this.turn(arrow, i));
    this.key.replaceChildren(...(count > 2 ? [] : panel.arrows.map(keyEntry)));
  }

  turn(arrow, i) {
    const old = this.arrows[i] ?? { group: svg("g"), degrees: arrow.degrees };
    // The shorter way round: 350° to 10° is 20°, not 340° back.
    let degrees = arrow.degrees;
    while (degrees - old.degrees > 180) degrees -= 360;
    while (old.degrees - degrees > 180) degrees += 360;
    const tip = arrow.length * REACH;
    const head = Math.min(arrow.role === "reference" ? 24 : 12, tip);
    old.group.setAttribute("class", `arrow ${look(arrow, i)}`);
    old.group.replaceChildren(
      svg("line", { x1: 0, y1: 0, x2: Math.max(0, tip - head), y2: 0 }),
      svg("path", { d: `M${tip} 0L${tip - head} ${head * 0.42}L${tip - head} ${-head * 0.42}Z` }),
    );
    old.group.style.transform = `rotate(${-degrees}deg)`;
    if (!this.arrows[i]) this.hands.append(old.group);
    this.arrows[i] = { group: old.group, degrees };
    if (arrow.tip && !arrow.ghost && arrow.role !== "reference") {
      const beyond = REACH + 15 / Math.max(arrow.length, 0.2);
      this.tips.append(svg("text", { x: arrow.x * beyond, y: -arrow.y * beyond, class: "tip middle" }, arrow.tip));
    }
  }
}

function look(arrow, i) {
  const colour = arrow.role ? `role-${arrow.role}` : `series-${i % 8}`;
  return arrow.ghost ? `${colour} ghost` : colour;
}

function keyEntry(arrow, i) {
  const entry = html("li", "");
  const swatch = svg("svg", { width: 26, height: 10, "aria-hidden": "true" });
  const group = svg("g", { class: `arrow ${look(arrow, i)}` });
  group.append(svg("line", { x1: 0, x2: 26, y1: 5, y2: 5 }));
  swatch.append(group);
  entry.append(swatch, html("span", "", arrow.name), html("span", "number", arrow.text));
  return entry;
}
