// A small heatmap that shows the number in each cell; rows that keep their name slide to their new place.
import { still } from "../motion.js";
import { EMPTY, arrowKey, bytes, clamp, html, letter, spaced } from "./elements.js";
import { paintBar } from "./canvas.js";
import { Panel } from "./panel.js";
import { tones } from "./tones.js";

export class Matrix extends Panel {
  static kind = "matrix";
  rows = new Map();

  pointerdown(event) {
    const at = place(event);
    if (at) this.choose(...at);
  }

  pointermove(event) {
    const at = place(event);
    if (at) this.look(...at);
    if (at && event.buttons) this.choose(...at);
  }

  keydown(event) {
    const { picked, shape: [rows, columns], marked_rows: [row], marked_columns: [column] } = this.panel;
    const by = picked === "both" && arrowKey(event);
    if (by) this.choose(clamp(row + by[0], 0, rows - 1), clamp(column + by[1], 0, columns - 1));
  }

  measure() {
    this.before = new Map([...this.rows].map(([key, row]) => [key, row.getBoundingClientRect().top]));
    this.wide = this.field.clientWidth;
  }

  paint() {
    const { panel, count, index } = this;
    const [rows, columns] = panel.shape;
    const steps = tones(panel.scale);
    // If there are many small panels, only the last one names its axes.
    const runs = [panel.rows.label && `${panel.rows.label} ↓`, `${panel.columns.label} →`].filter(Boolean).join(", ");
    this.columnsName.textContent = count > 3 && index < count - 1 ? "" : runs;
    this.field.setAttribute("aria-label", `${panel.name}: ${rows} by ${columns} numbers, also in the table below`);
    this.field.style.setProperty("--columns", columns);
    const picked = panel.picked === "both";
    if (picked) this.field.tabIndex = 0;
    this.field.classList.toggle("picked", picked);
    const codes = bytes(panel.codes);
    const after = new Map();
    panel.keys.forEach((name, r) => {
      const key = `${name} ${panel.keys.slice(0, r).filter((other) => other === name).length}`;
      const row = this.rows.get(key) ?? html("div", { class: "row" });
      const cells = panel.texts[r].map((text, c) => numbered(text, codes[r * columns + c], steps, r, c));
      if (picked && r === panel.marked_rows[0]) cells[panel.marked_columns[0]].classList.add("here");
      if (!picked) for (const c of panel.marked_columns) cells[c].classList.add("column");
      row.classList.toggle("marked", !picked && panel.marked_rows.includes(r));
      row.replaceChildren(html("span", { class: "key" }, name), ...cells);
      after.set(key, row);
    });
    const { ticks } = panel.columns;
    const sparse = ticks.length < columns;
    const heads = (sparse ? spaced(ticks, this.wide) : ticks).map(([share, text]) => {
      const head = html("span", { class: "tick" }, text);
      head.style.gridColumn = Math.floor(share * columns) + 2; // columns count from 1, and the first has the rows' names
      return head;
    });
    const longest = Math.max(...panel.keys.map((key) => key.length));
    this.element.style.setProperty("--key", `${rows > 10 ? 0.9 + 0.4 * longest : Math.min(6.2, 0.9 + 0.48 * longest)}rem`);
    this.field.classList.toggle("sparse", sparse);
    this.field.replaceChildren(html("div", { class: "row head" }, ...heads), ...after.values());
    paintBar(this, steps);
    this.rows = after;
  }

  gauge() {
    const { clientWidth, clientHeight } = this.field.querySelector(".cell");
    this.cell = [clientWidth, clientHeight];
  }

  // Numbers are as large as their cells allow; if they would be too small, only colours are shown.
  // Words above columns that are narrower than the words are vertical.
  fit() {
    const { cell: [wide, tall], panel: { texts, shape, columns: { ticks } } } = this;
    const heads = ticks.length < shape[1] ? [""] : ticks.flatMap(([, text]) => text.split(" "));
    this.field.classList.toggle("upright", Math.max(...heads.map((word) => word.length)) * letter() > wide);
    const letters = Math.max(...texts.flat().map((text) => text.length));
    const size = Math.min((wide - 4) / (0.66 * letters), 0.9 * tall);
    this.element.classList.toggle("mute", size < (this.count > 3 ? 10 : 8));
    this.field.style.setProperty("--digits", `min(${size}px, 1.4rem)`);
  }

  // Rows are painted at their new place, and an animation moves them there from their old place.
  slide() {
    if (still() || !this.fresh) return; // after a change of the window's size, rows do not slide
    for (const [key, row] of this.rows) {
      const shift = this.before.has(key) ? this.before.get(key) - row.getBoundingClientRect().top : 0;
      if (shift) row.animate([{ transform: `translateY(${shift}px)` }, { transform: "none" }], { duration: 300, easing: "ease-in-out" });
    }
  }
}

// The row and column of the cell of an event, or null between cells.
function place({ target }) {
  const cell = target.closest("[data-row]");
  return cell && [Number(cell.dataset.row), Number(cell.dataset.column)];
}

function numbered(text, code, steps, row, column) {
  const at = { "data-row": row, "data-column": column };
  if (code === EMPTY) return html("span", { class: "cell empty", ...at });
  const [r, g, b, dark] = steps[code];
  const cell = html("span", { class: `cell ${dark ? "dark-text" : "light-text"}`, ...at }, html("span", { class: "number" }, text));
  cell.style.backgroundColor = `rgb(${r} ${g} ${b})`;
  return cell;
}
