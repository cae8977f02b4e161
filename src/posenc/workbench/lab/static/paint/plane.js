// Vectors in a plane: every arrow lies along +x and is turned, so that a change of angle is seen as a turn.
import { keyEntry, html, svg } from "./elements.js";

const SIZE = 200; // half the picture, in its own units; one limit is REACH of them
const REACH = 168;

export class Plane {
  constructor({ move }) {
    this.move = move;
    this.element = html("div", "panel plane");
    this.name = html("div", "name");
    this.picture = svg("svg", { viewBox: `${-SIZE} ${-SIZE} ${2 * SIZE} ${2 * SIZE}`, role: "group" });
    this.key = html("ul", "key");
    this.element.append(this.name, this.picture, this.key);
    this.arrows = [];
    this.held = null;
    this.picture.append(svg("line", { class: "grid", x1: -SIZE, x2: SIZE, y1: 0, y2: 0 }), svg("line", { class: "grid", y1: -SIZE, y2: SIZE, x1: 0, x2: 0 }));
    [this.circles, this.limits, this.hands, this.tips] = [svg("g"), svg("g"), svg("g"), svg("g")];
    this.picture.append(this.circles, this.limits, this.hands, this.tips);
    this.picture.addEventListener("pointerdown", (event) => this.press(event));
    this.picture.addEventListener("pointermove", (event) => this.drag(event));
    for (const name of ["pointerup", "pointercancel"]) this.picture.addEventListener(name, () => { this.held = null; });
  }

  paint(panel, count) {
    this.panel = panel;
    this.name.textContent = panel.name;
    this.picture.setAttribute("aria-label", `${panel.name}: ${panel.arrows.map((a) => `${a.name} ${a.text}`).join("; ")}`);
    const limits = [[REACH, panel.limit], [-REACH, `−${panel.limit}`]];
    this.limits.replaceChildren(...limits.map(([x, text]) => svg("text", { x, y: 16, class: "tick middle" }, text)));
    const lengths = new Set(panel.arrows.map((arrow) => arrow.length));
    this.circles.replaceChildren(...[...lengths].map((length) => svg("circle", { class: "orbit", r: length * REACH })));
    while (this.arrows.length > panel.arrows.length) this.arrows.pop().group.remove();
    this.tips.replaceChildren();
    panel.arrows.forEach((arrow, i) => this.turn(arrow, i));
    this.key.replaceChildren(...(count > 2 ? [] : panel.arrows.map((arrow, i) => keyEntry(`arrow ${look({ ...arrow, moves: "" }, i)}`, arrow.name, "", arrow.text))));
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
    const parts = [
      svg("line", { x1: 0, y1: 0, x2: Math.max(0, tip - head), y2: 0 }),
      svg("path", { d: `M${tip} 0L${tip - head} ${head * 0.42}L${tip - head} ${-head * 0.42}Z` }),
    ];
    if (arrow.moves) parts.push(svg("circle", { class: "grip", cx: tip, r: 11 }));
    // The grip that has the keyboard keeps it: the group stays and only what is in it is drawn anew.
    old.group.replaceChildren(...parts);
    if (arrow.moves) this.keyed(old.group, arrow, i);
    old.group.style.transform = `rotate(${-degrees}deg)`;
    if (!this.arrows[i]) this.hands.append(old.group);
    this.arrows[i] = { group: old.group, degrees };
    if (arrow.tip && !arrow.ghost && arrow.role !== "reference") {
      const beyond = REACH + 22 / Math.max(arrow.length, 0.2);
      this.tips.append(svg("text", { x: arrow.x * beyond, y: -arrow.y * beyond, class: "tip middle" }, arrow.tip));
    }
  }

  keyed(group, arrow, i) {
    const values = { tabindex: 0, role: "slider", "aria-label": arrow.name, "aria-valuenow": arrow.at, "aria-valuemin": arrow.stops[0][0], "aria-valuemax": arrow.stops.at(-1)[0], "aria-valuetext": arrow.text };
    for (const [name, value] of Object.entries(values)) group.setAttribute(name, value);
    group.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const { stops, at, moves } = this.panel.arrows[i];
      const place = stops.findIndex(([value]) => value === at) + by;
      if (stops[place]) this.move(moves, stops[place][0]);
    };
  }

  // Where the pointer is, in limits.
  at(event) {
    const box = this.picture.getBoundingClientRect();
    const side = Math.min(box.width, box.height);
    const scale = (2 * SIZE) / side / REACH;
    return [(event.clientX - box.left - box.width / 2) * scale, -(event.clientY - box.top - box.height / 2) * scale];
  }

  press(event) {
    const [x, y] = this.at(event);
    const far = (arrow) => between(arrow.x - x, arrow.y - y);
    let best = null;
    this.panel.arrows.forEach((arrow, i) => {
      if (arrow.moves && far(arrow) < 0.09 && (best === null || far(arrow) < far(this.panel.arrows[best]))) best = i;
    });
    if (best === null) return;
    event.preventDefault();
    this.held = best;
    this.picture.setPointerCapture(event.pointerId);
    this.arrows[best].group.focus({ preventScroll: true });
  }

  // The stop whose tip is nearest to the pointer; of equals, such as a turn apart, the one nearest in value.
  drag(event) {
    if (this.held === null) return;
    const [x, y] = this.at(event);
    const { stops, at, moves } = this.panel.arrows[this.held];
    const far = ([value, left, up]) => between(left - x, up - y) + Math.abs(value - at) * 1e-3;
    this.move(moves, stops.reduce((best, stop) => (far(stop) < far(best) ? stop : best))[0]);
  }
}

// The square of a distance.
const between = (x, y) => x * x + y * y;

function look(arrow, i) {
  const colour = arrow.role || `series-${i % 8}`;
  return `${colour}${arrow.ghost ? " ghost" : ""}${arrow.moves ? " movable" : ""}`;
}
