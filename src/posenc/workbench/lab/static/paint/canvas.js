// A heatmap on a canvas: one pixel a cell, scaled by the browser; ticks and marks are HTML over it.
import { EMPTY, clamp, html, percent, unit } from "./elements.js";
import { legend } from "./legend.js";
import { decoded, tones } from "./tones.js";

export class Canvas {
  constructor({ look, choose }) {
    this.look = look;
    this.choose = choose;
    this.cursor = null;
    this.dragged = null;
    this.element = html("div", "panel heatmap");
    for (const [name, className] of Object.entries({ name: "name", rowsName: "axis rows-name", rowTicks: "row-ticks", field: "field", columnTicks: "column-ticks", columnsName: "axis columns-name", scale: "scale" })) {
      this[name] = html("div", className);
      this.element.append(this[name]);
    }
    this.field.tabIndex = 0;
    this.field.setAttribute("role", "application");
    this.field.setAttribute("aria-roledescription", "heatmap");
    this.canvas = html("canvas");
    this.marks = html("div", "marks");
    this.ring = html("div", "ring");
    this.ring.hidden = true;
    this.field.append(this.canvas, this.marks, this.ring);
    this.field.addEventListener("pointerdown", (event) => this.press(event));
    this.field.addEventListener("pointermove", (event) => this.point(event));
    for (const name of ["pointerup", "pointercancel"]) this.field.addEventListener(name, () => { this.dragged = null; });
    this.field.addEventListener("pointerleave", () => { this.ring.hidden = true; });
    this.field.addEventListener("keydown", (event) => this.key(event));
  }

  async paint(panel) {
    this.panel = panel;
    const [rows, columns] = panel.shape;
    this.name.textContent = panel.name;
    this.rowsName.textContent = panel.rows.label;
    this.columnsName.textContent = panel.columns.label;
    this.field.setAttribute("aria-label", `${panel.name}: ${panel.rows.label} by ${panel.columns.label}. Arrow keys read values, Enter picks.`);
    const steps = await tones(panel.scale);
    if (this.panel !== panel) return;
    this.fit(rows, columns);
    this.canvas.width = columns;
    this.canvas.height = rows;
    const image = new ImageData(columns, rows);
    decoded(panel.codes).forEach((code, i) => {
      if (code === EMPTY) return;
      const [r, g, b] = steps[code];
      image.data.set([r, g, b, 255], 4 * i);
    });
    this.canvas.getContext("2d").putImageData(image, 0, 0);
    this.canvas.classList.toggle("fine", columns > this.field.clientWidth * devicePixelRatio);
    ticks(this.rowTicks, panel.rows.ticks, "top");
    ticks(this.columnTicks, panel.columns.ticks, "left");
    this.scale.replaceChildren(legend(panel, steps));
    this.mark(rows, columns);
  }

  // As large as its place allows; square where both sides are the same.
  fit(rows, columns) {
    const u = unit();
    const wide = this.element.clientWidth - 44 * u;
    const tall = Math.max(60, this.element.clientHeight - 125 * u);
    const same = rows === columns && this.panel.rows.label === this.panel.columns.label;
    const shape = same ? 1 : clamp(wide / tall, 0.5, 2.4);
    const width = Math.max(60, Math.min(wide, tall * shape));
    Object.assign(this.field.style, { width: `${width}px`, height: `${width / shape}px` });
    this.columnTicks.style.width = `${width}px`;
  }

  mark(rows, columns) {
    const bands = [
      ...this.panel.marked_columns.map((at) => ({ left: at / columns, width: 1 / columns, top: 0, height: 1 })),
      ...this.panel.marked_rows.map((at) => ({ top: at / rows, height: 1 / rows, left: 0, width: 1 })),
    ];
    this.marks.replaceChildren(...bands.map((band) => {
      const element = html("div", "band");
      for (const [side, share] of Object.entries(band)) element.style[side] = percent(share);
      return element;
    }));
  }

  at(event) {
    const [rows, columns] = this.panel.shape;
    const box = this.field.getBoundingClientRect();
    const index = (share, count) => clamp(Math.floor(share * count), 0, count - 1);
    return [index((event.clientY - box.top) / box.height, rows), index((event.clientX - box.left) / box.width, columns)];
  }

  // A press near a mark takes hold of it; elsewhere it sets the next one. Either can then be dragged.
  press(event) {
    const [row, column] = this.at(event);
    const [rows, columns] = this.panel.shape;
    const down = this.panel.picked === "rows";
    const [here, size] = down ? [row, this.field.clientHeight / rows] : [column, this.field.clientWidth / columns];
    const marks = down ? this.panel.marked_rows : this.panel.marked_columns;
    const near = marks.findIndex((mark) => Math.abs(mark - here) * size < 9);
    this.move(row, column);
    this.dragged = this.choose(row, column, near < 0 ? undefined : near);
    if (this.dragged !== null) this.field.setPointerCapture(event.pointerId);
  }

  point(event) {
    const [row, column] = this.at(event);
    this.move(row, column);
    if (this.dragged !== null) this.choose(row, column, this.dragged);
  }

  move(row, column) {
    const [rows, columns] = this.panel.shape;
    if (!this.ring.hidden && this.cursor?.[0] === row && this.cursor?.[1] === column) return;
    this.cursor = [row, column];
    Object.assign(this.ring.style, { left: percent(column / columns), top: percent(row / rows), width: percent(1 / columns), height: percent(1 / rows) });
    this.ring.hidden = false;
    this.look(row, column);
  }

  key(event) {
    const [row, column] = this.cursor ?? [0, -1];
    const [rows, columns] = this.panel.shape;
    const far = event.shiftKey ? 10 : 1;
    const step = { ArrowUp: [-far, 0], ArrowDown: [far, 0], ArrowLeft: [0, -far], ArrowRight: [0, far], Home: [0, -column], End: [0, columns] }[event.key];
    if (step) {
      event.preventDefault();
      this.move(clamp(row + step[0], 0, rows - 1), clamp(column + step[1], 0, columns - 1));
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor) {
      event.preventDefault();
      this.choose(...this.cursor);
    }
  }
}

function ticks(holder, places, side) {
  holder.replaceChildren(...places.map(([share, text]) => {
    const tick = html("span", "", text);
    tick.style[side] = percent(share);
    return tick;
  }));
}
