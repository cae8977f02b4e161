// A heatmap on a canvas with one pixel per cell, which the browser scales; ticks and marks are HTML elements over it.
import { EMPTY, arrowKey, bytes, clamp, html, letter, percent, spaced, unit } from "./elements.js";
import { Panel } from "./panel.js";
import { tones } from "./tones.js";

export class Canvas extends Panel {
  static kind = "heatmap";
  cursor = null;
  dragged = null;

  measure() {
    const { element: { clientWidth, clientHeight }, panel: { rows: { ticks } } } = this;
    this.beside = 12 * unit() + letter() * Math.max(...ticks.map(([, text]) => text.length));
    const around = getComputedStyle(this.element).getPropertyValue("--around"); // the height of ticks, axis names and bar
    this.room = [clientWidth - this.beside - 2, clientHeight - this.name.offsetHeight - around * unit()];
  }

  paint() {
    const { panel } = this;
    const [rows, columns] = panel.shape;
    this.rowsName.textContent = panel.rows.label;
    this.columnsName.textContent = panel.columns.label;
    this.field.setAttribute("aria-label", `${panel.name}: ${panel.rows.label} by ${panel.columns.label}. Arrow keys read values, Enter picks.`);
    const steps = tones(panel.scale);
    const width = this.frame(rows, columns);
    coloured(this.canvas, panel.across, bytes(panel.codes), steps);
    this.canvas.classList.toggle("fine", panel.across > width * devicePixelRatio);
    ticks(this.rowTicks, spaced(panel.rows.ticks, parseFloat(this.field.style.height), 15 * unit()), "top");
    ticks(this.columnTicks, spaced(panel.columns.ticks, width), "left");
    paintBar(this, steps);
    this.marks.replaceChildren(
      ...panel.marked_columns.map((at) => placed("band", { left: at / columns, width: 1 / columns, top: 0, height: 1 })),
      ...panel.marked_rows.map((at) => placed("band", { top: at / rows, height: 1 / rows, left: 0, width: 1 })),
      ...(panel.picked === "both" ? [placed("here", { top: panel.marked_rows[0] / rows, height: 1 / rows, left: panel.marked_columns[0] / columns, width: 1 / columns })] : []),
    );
  }

  // Make the heatmap as large as its place allows, and square if both axes are the same.
  frame(rows, columns) {
    const [wide, tall] = this.room.map((side) => Math.max(60, side));
    const same = rows === columns && (this.panel.rows.label === this.panel.columns.label || this.panel.across > columns);
    const shape = same ? 1 : clamp(wide / tall, 0.5, 2.4);
    const width = Math.min(wide, tall * shape);
    Object.assign(this.field.style, { width: `${width}px`, height: `${width / shape}px` });
    this.element.style.gridTemplateColumns = `${this.beside}px ${width}px`; // centres it in its place
    return width;
  }

  at(event) {
    const [rows, columns] = this.panel.shape;
    const box = this.field.getBoundingClientRect();
    const index = (share, count) => clamp(Math.floor(share * count), 0, count - 1);
    return [index((event.clientY - box.top) / box.height, rows), index((event.clientX - box.left) / box.width, columns)];
  }

  // A press near a mark grabs it; a press elsewhere sets the next mark there. The mark can then be dragged.
  pointerdown(event) {
    const [row, column] = this.at(event);
    const [rows, columns] = this.panel.shape;
    const down = this.panel.picked === "rows";
    const [here, size] = down ? [row, this.field.clientHeight / rows] : [column, this.field.clientWidth / columns];
    const marks = down ? this.panel.marked_rows : this.panel.marked_columns;
    const near = marks.findIndex((mark) => Math.abs(mark - here) * size < 9);
    this.stand(row, column);
    this.dragged = this.choose(row, column, near < 0 ? undefined : near);
    if (this.dragged !== null) this.field.setPointerCapture(event.pointerId);
  }

  pointermove(event) {
    const [row, column] = this.at(event);
    this.stand(row, column);
    if (this.dragged !== null) this.choose(row, column, this.dragged);
  }

  lostpointercapture() { this.dragged = null; }

  pointerleave() { this.ring.hidden = true; }

  stand(row, column) {
    const [rows, columns] = this.panel.shape;
    if (!this.ring.hidden && this.cursor?.[0] === row && this.cursor?.[1] === column) return;
    this.cursor = [row, column];
    shift(this.ring, { left: column / columns, top: row / rows, width: 1 / columns, height: 1 / rows });
    this.ring.hidden = false;
    this.look(row, column);
  }

  keydown(event) {
    const [row, column] = this.cursor ?? [0, -1];
    const [rows, columns] = this.panel.shape;
    const step = arrowKey(event) ?? { Home: [0, -column], End: [0, columns] }[event.key];
    const picks = (event.key === "Enter" || event.key === " ") && this.cursor;
    if (step || picks) event.preventDefault();
    if (step) this.stand(clamp(row + step[0], 0, rows - 1), clamp(column + step[1], 0, columns - 1));
    if (picks) this.choose(...this.cursor);
  }
}

// The colour bar of a panel, with its unit, and with numbers next to their colours.
export function paintBar({ bar, ends, unitName, panel: { span: [first, last], legend, unit } }, steps) {
  coloured(bar, last - first + 1, Uint8Array.from({ length: last - first + 1 }, (_, i) => first + i), steps);
  ticks(ends, legend, "left");
  unitName.textContent = unit;
}

function coloured(canvas, columns, codes, steps) {
  Object.assign(canvas, { width: columns, height: codes.length / columns });
  const image = new ImageData(columns, canvas.height);
  codes.forEach((code, i) => {
    if (code === EMPTY) return;
    image.data.set(steps[code], 4 * i);
    image.data[4 * i + 3] = 255;
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// Set the sides of a box as fractions of its container.
function shift(element, box) {
  for (const [side, share] of Object.entries(box)) element.style[side] = percent(share);
  return element;
}

const placed = (className, box) => shift(html("div", { class: className }), box);

function ticks(holder, places, side) {
  holder.replaceChildren(...places.map(([share, text]) => shift(html("span", {}, text), { [side]: share })));
}
