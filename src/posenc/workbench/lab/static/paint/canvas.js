// A heatmap on a canvas: one pixel a cell, scaled by the browser; ticks and marks are HTML over it.
import { html, percent } from "./elements.js";
import { legend } from "./legend.js";
import { decoded, tones } from "./tones.js";

const EMPTY = 255;

export class Canvas {
  constructor(look, choose) {
    this.look = look;
    this.choose = choose;
    this.cursor = null;
    this.element = html("div", "panel heatmap");
    this.name = html("p", "name");
    this.rowsName = html("p", "axis rows-name");
    this.columnsName = html("p", "axis columns-name");
    this.field = html("div", "field");
    this.field.tabIndex = 0;
    this.field.setAttribute("role", "application");
    this.field.setAttribute("aria-roledescription", "heatmap");
    this.canvas = html("canvas");
    this.marks = html("div", "marks");
    this.ring = html("div", "ring");
    this.ring.hidden = true;
    this.rowTicks = html("div", "row-ticks");
    this.columnTicks = html("div", "column-ticks");
    this.scale = html("div");
    this.field.append(this.canvas, this.marks, this.ring);
    this.element.append(this.name, this.rowsName, this.rowTicks, this.field, this.columnTicks, this.columnsName, this.scale);
    this.field.addEventListener("pointermove", (event) => this.point(event));
    this.field.addEventListener("pointerleave", () => { this.ring.hidden = true; });
    this.field.addEventListener("click", (event) => { this.point(event); this.choose(...this.cursor); });
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
    this.field.style.aspectRatio = String(rows === columns ? 1 : Math.min(2.4, Math.max(1.15, columns / rows)));
    this.field.classList.toggle("square", rows === columns);
    this.canvas.width = columns;
    this.canvas.height = rows;
    const image = new ImageData(columns, rows);
    decoded(panel.codes).forEach((code, i) => {
      if (code === EMPTY) return;
      const [r, g, b] = steps[code];
      image.data[4 * i] = r;
      image.data[4 * i + 1] = g;
      image.data[4 * i + 2] = b;
      image.data[4 * i + 3] = 255;
    });
    this.canvas.getContext("2d").putImageData(image, 0, 0);
    this.canvas.classList.toggle("fine", columns > this.field.clientWidth * devicePixelRatio);
    ticks(this.rowTicks, panel.rows.ticks, "top");
    ticks(this.columnTicks, panel.columns.ticks, "left");
    this.scale.replaceChildren(legend(panel, steps));
    this.mark(rows, columns);
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

  point(event) {
    const [rows, columns] = this.panel.shape;
    const box = this.field.getBoundingClientRect();
    const clamp = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
    this.move(clamp((event.clientY - box.top) / box.height, rows), clamp((event.clientX - box.left) / box.width, columns));
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
      const clamp = (at, count) => Math.min(count - 1, Math.max(0, at));
      this.move(clamp(row + step[0], rows), clamp(column + step[1], columns));
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
