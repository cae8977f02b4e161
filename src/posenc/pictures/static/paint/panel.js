// What painters share: parts cloned from the page's template, and a field whose events are methods of the same name.
const EVENTS = ["pointerdown", "pointermove", "pointerleave", "lostpointercapture", "keydown"];

export class Panel {
  constructor(acts) {
    this.element = document.getElementById(`${this.constructor.kind}-panel`).content.firstElementChild.cloneNode(true);
    for (const part of this.element.querySelectorAll("[data-part]")) this[part.dataset.part] = part;
    Object.assign(this, acts);
    for (const event of EVENTS) this.field.addEventListener(event, this);
  }

  handleEvent(event) { this[event.type]?.(event); }

  // The panel that stands at this place among so many; it is fresh where it is not the one that was shown.
  show(panel, count, index) {
    Object.assign(this, { panel, fresh: this.panel !== panel, count, index });
    this.name.textContent = panel.name;
  }

  // Reading sizes makes the browser lay the page out: all panels read, then all write, by turns.
  measure() {}

  gauge() {}

  fit() {}

  slide() {}
}

export const ROUNDS = ["measure", "paint", "gauge", "fit", "slide"];
