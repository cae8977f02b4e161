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
    const fresh = this.panel !== panel;
    this.panel = panel;
    this.name.textContent = panel.name;
    this.paint(panel, fresh, count, index);
  }
}
