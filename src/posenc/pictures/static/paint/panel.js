// The base of all painters: clones the page's template, and handles events of the field in methods of the same name.
const EVENTS = ["pointerdown", "pointermove", "pointerleave", "lostpointercapture", "keydown"];

export class Panel {
  constructor(acts) {
    this.element = document.getElementById(`${this.constructor.kind}-panel`).content.firstElementChild.cloneNode(true);
    for (const part of this.element.querySelectorAll("[data-part]")) this[part.dataset.part] = part;
    Object.assign(this, acts);
    for (const event of EVENTS) this.field.addEventListener(event, this);
  }

  handleEvent(event) { this[event.type]?.(event); }

  // Show a panel, number ``index`` of ``count``; ``fresh`` says whether it differs from the panel shown before.
  show(panel, count, index) {
    Object.assign(this, { panel, fresh: this.panel !== panel, count, index });
    this.name.textContent = panel.name;
  }

  // Reading a size forces a layout of the page, so rounds alternate: all panels read, then all panels write.
  measure() {}

  gauge() {}

  fit() {}

  slide() {}
}

export const ROUNDS = ["measure", "paint", "gauge", "fit", "slide"];
