// Vectors in a plane. Every arrow is drawn along +x and rotated, so that changes of its angle are animated as rotations.
import { arrowKey, keyEntry, svg } from "./elements.js";
import { Panel } from "./panel.js";

const REACH = 168; // the pixels per ``limit`` in a picture of 400 by 400, of which a page may show a part

export class Plane extends Panel {
  static kind = "plane";
  arrows = [];
  held = null;
  pointed = [1, 0]; // the position of the pointer that drags an arrow

  paint() {
    const { panel, count } = this;
    this.field.setAttribute("aria-label", `${panel.name}: ${panel.arrows.map((a) => `${a.name} ${a.text}`).join("; ")}`);
    const limits = [[REACH, panel.limit], [-REACH, `−${panel.limit}`]];
    const below = (x) => panel.arrows.some((a) => a.tip && a.x * x > 0 && a.y < 0.05 && a.y > -0.25); // an arrow's word is there
    this.limits.replaceChildren(...limits.map(([x, text]) => svg("text", { x, y: below(x) ? -8 : 16, class: "tick middle" }, text)));
    const lengths = new Set(panel.arrows.map((arrow) => arrow.length));
    this.circles.replaceChildren(...[...lengths].map((length) => svg("circle", { class: "orbit", r: length * REACH })));
    while (this.arrows.length > panel.arrows.length) this.arrows.pop().group.remove();
    this.tips.replaceChildren();
    panel.arrows.forEach((arrow, i) => this.turn(arrow, i));
    [...this.arcs.children].forEach((arc, i) => this.span(arc, panel.arcs[i]));
    const named = count > 2 ? [] : panel.arrows;
    this.key.replaceChildren(...named.map((arrow) => keyEntry(`arrow ${look({ ...arrow, moves: "" })}`, arrow.name, "", arrow.text)));
  }

  // The rotation of an arrow away from its position while it, or an arrow that it moves along with, is dragged.
  lean(arrow) {
    const held = this.panel.arrows[this.held];
    const leans = held && (arrow === held || arrow.along?.includes(held.moves));
    return leans ? towards(...this.pointed).multiply(towards(held.x, held.y).inverse()) : null;
  }

  // Draw an arc between two arrows along +x and rotate it to them; if both arrows lean, the arc does too.
  span(arc, pair) {
    if (!pair) return arc.removeAttribute("stroke-dasharray");
    arc.style.transition = arc.hasAttribute("stroke-dasharray") ? "" : "none"; // the first time, without animation
    const [first, last] = pair.map((i) => this.arrows[i].degrees);
    const between = shorter(last - first);
    arc.setAttribute("stroke-dasharray", `${Math.abs(between)} 360`);
    const [one, other] = pair.map((i) => this.lean(this.panel.arrows[i]));
    arc.style.transform = turned(one && other, between > 0 ? last : first);
  }

  turn(arrow, i) {
    const { group, degrees: before } = this.arrows[i] ?? { group: svg("g"), degrees: arrow.degrees };
    const degrees = before + shorter(arrow.degrees - before);
    const lean = this.lean(arrow);
    const tip = arrow.length * REACH;
    const head = Math.min(arrow.role === "reference" || this.count > 2 ? 24 : 12, tip);
    const parts = [
      svg("line", { x1: 0, y1: 0, x2: Math.max(0, tip - head), y2: 0 }),
      svg("path", { d: `M${tip} 0L${tip - head} ${head * 0.42}L${tip - head} ${-head * 0.42}Z` }),
    ];
    if (arrow.moves) parts.push(svg("circle", { class: "reach", cx: tip, r: 50 }), svg("circle", { class: "grip", cx: tip, r: 11 }));
    // Redraw only the contents of the group, so that a focused grip keeps the keyboard focus.
    group.replaceChildren(...parts);
    group.setAttribute("class", `arrow ${look(arrow)}`);
    if (arrow.moves) {
      const values = { label: arrow.name, valuenow: arrow.at, valuemin: arrow.stops[0][0], valuemax: arrow.stops.at(-1)[0], valuetext: arrow.text };
      for (const [name, value] of Object.entries(values)) group.setAttribute(`aria-${name}`, value);
      group.setAttribute("role", "slider");
      group.setAttribute("tabindex", 0);
    }
    group.style.transform = turned(lean, degrees);
    if (!this.arrows[i]) this.hands.append(group);
    this.arrows[i] = { group, degrees };
    if (arrow.tip && !arrow.ghost && arrow.role !== "reference") {
      const beyond = REACH + (arrow.tip.length > 2 ? 24 : 22) / Math.max(arrow.length, 0.2);
      const { x, y } = (lean ?? new DOMMatrix()).transformPoint({ x: arrow.x * beyond, y: -arrow.y * beyond });
      const side = arrow.tip.length < 3 || Math.abs(x) < 60 ? " middle" : x > 0 ? "" : " end"; // a word extends outwards
      this.tips.append(svg("text", { x, y, class: `tip${side}` }, arrow.tip));
    }
  }

  keydown(event) {
    const by = arrowKey(event);
    if (!by) return;
    const { stops, at, moves } = this.panel.arrows[this.arrows.findIndex(({ group }) => group === event.target)];
    const next = stops[stops.findIndex(([value]) => value === at) + by[1] - by[0]];
    if (next) this.move(moves, next[0]);
  }

  // The position of the pointer, in units of ``limit``.
  at(event) {
    const box = this.field.getBoundingClientRect();
    const scale = this.field.viewBox.baseVal.width / Math.min(box.width, box.height) / REACH;
    return [(event.clientX - box.left - box.width / 2) * scale, -(event.clientY - box.top - box.height / 2) * scale];
  }

  pointerdown(event) {
    const [x, y] = this.at(event);
    const far = this.panel.arrows.map((arrow) => (arrow.moves ? between(arrow.x - x, arrow.y - y) : Infinity));
    const best = far.indexOf(Math.min(...far));
    if (far[best] >= 0.09) return;
    event.preventDefault();
    this.hold(best);
    this.pointed = [this.panel.arrows[best].x, this.panel.arrows[best].y];
    this.field.setPointerCapture(event.pointerId);
    this.arrows[best].group.focus({ preventScroll: true });
  }

  // Move to the stop whose tip is nearest to the pointer; if tips coincide after a full turn, to the nearest value.
  pointermove(event) {
    if (this.held === null) return;
    const [x, y] = this.at(event);
    const { stops, at, moves } = this.panel.arrows[this.held];
    const far = ([value, left, up]) => between(left - x, up - y) + Math.abs(value - at) * 1e-3;
    this.pointed = [x, y];
    this.move(moves, stops.reduce((best, stop) => (far(stop) < far(best) ? stop : best))[0]);
    this.paint();
  }

  // A released arrow moves to the nearest position.
  lostpointercapture() {
    this.hold(null);
    this.paint();
  }

  hold(index) {
    this.held = index;
    this.field.classList.toggle("held", index !== null);
  }
}

// The shorter of the two rotations: from 350° to 10°, it is 20°, not −340°.
const shorter = (degrees) => degrees - 360 * Math.round(degrees / 360);

// The rotation from +x to a direction, and a CSS transform that rotates by degrees and then by ``lean``.
const towards = (x, y) => new DOMMatrix().rotateFromVectorSelf(x, -y);
const turned = (lean, degrees) => `${lean ?? ""} rotate(${-degrees}deg)`;

// The squared length of a vector.
const between = (x, y) => x * x + y * y;

const look = (arrow) => `${arrow.colour}${arrow.ghost ? " ghost" : ""}${arrow.moves ? " movable" : ""}`;
