// A small heatmap whose cells carry their numbers; rows that keep their name slide to their new place.
import { still } from "../motion.js";
import { EMPTY, clamp, html, letter } from "./elements.js";
import { decoded, tones } from "./tones.js";

export class Matrix {
  constructor({ look, choose }) {
    this.look = look;
    this.element = html("div", "panel matrix");
    this.name = html("div", "name");
    this.grid = html("div", "grid");
    this.grid.setAttribute("role", "img");
    this.columnsName = html("div", "axis columns-name");
    this.element.append(this.name, this.grid, this.columnsName);
    this.rows = new Map();
    this.grid.addEventListener("pointermove", (event) => {
      const cell = event.target.closest("[data-row]");
      if (!cell) return;
      const place = [Number(cell.dataset.row), Number(cell.dataset.column)];
      this.look(...place);
      if (event.buttons) choose(...place);
    });
    this.grid.addEventListener("pointerdown", (event) => {
      const cell = event.target.closest("[data-row]");
      if (cell) choose(Number(cell.dataset.row), Number(cell.dataset.column));
    });
    this.grid.addEventListener("keydown", (event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!by || this.panel.picked !== "both") return;
      event.preventDefault();
      const [rows, columns] = this.panel.shape;
      choose(clamp(this.panel.marked_rows[0] + by[0], 0, rows - 1), clamp(this.panel.marked_columns[0] + by[1], 0, columns - 1));
    });
  }

  async paint(panel, count, index) {
    const moved = this.panel !== panel; // else the window has another size, and rows stand where they stood
    this.panel = panel;
    const [rows, columns] = panel.shape;
    const steps = await tones(panel.scale);
    if (this.panel !== panel) return;
    this.name.textContent = panel.name;
    // Of many small panels only the first says what runs where.
    const small = count > 3;
    this.columnsName.textContent = small ? (index ? "" : `${panel.rows.label} ↓, ${panel.columns.label} →`) : panel.columns.label;
    this.grid.setAttribute("aria-label", `${panel.name}: ${rows} by ${columns} numbers, also in the table below`);
    this.grid.style.setProperty("--columns", columns);
    const picked = panel.picked === "both";
    if (picked) this.grid.tabIndex = 0;
    this.grid.classList.toggle("picked", picked);
    const codes = decoded(panel.codes);
    const before = new Map([...this.rows].map(([key, row]) => [key, row.getBoundingClientRect().top]));
    const fresh = new Map();
    const seen = {};
    for (let r = 0; r < rows; r += 1) {
      seen[panel.keys[r]] = (seen[panel.keys[r]] ?? 0) + 1;
      const key = `${panel.keys[r]} ${seen[panel.keys[r]]}`;
      const row = this.rows.get(key) ?? html("div", "row");
      const cells = panel.texts[r].map((text, c) => numbered(text, codes[r * columns + c], steps, r, c));
      if (picked && r === panel.marked_rows[0]) cells[panel.marked_columns[0]].classList.add("here");
      row.replaceChildren(html("span", "key", panel.keys[r]), ...cells);
      fresh.set(key, row);
    }
    const top = html("div", "row head");
    top.append(html("span", "key", small ? "" : panel.rows.label), ...(panel.columns.ticks.length === columns ? panel.columns.ticks.map(([, text]) => html("span", "tick", text)) : []));
    const longest = Math.max(...panel.keys.map((key) => key.length), small ? 0 : panel.rows.label.length - 1);
    this.element.style.setProperty("--key", `${rows > 10 ? 0.9 + 0.4 * longest : Math.min(6.2, 0.9 + 0.48 * longest)}rem`);
    this.grid.replaceChildren(top, ...fresh.values());
    this.fit(panel.texts.flat(), panel.columns.ticks.flatMap(([, text]) => text.split(" ")));
    if (moved) slide(before, fresh);
    this.rows = fresh;
  }

  // Numbers are as large as their cells allow; below nine pixels colour alone speaks, and the table has them.
  // Words over columns that are narrower stand upright.
  fit(texts, heads) {
    const { clientWidth, clientHeight } = this.grid.querySelector(".cell");
    this.grid.classList.toggle("upright", Math.max(...heads.map((word) => word.length)) * letter() > clientWidth);
    const letters = Math.max(...texts.map((text) => text.length));
    const size = Math.min((clientWidth - 4) / (0.66 * letters), 0.9 * clientHeight);
    this.element.classList.toggle("mute", size < 8.5);
    this.grid.style.setProperty("--digits", `min(${size}px, 0.86rem)`);
  }
}

function numbered(text, code, steps, row, column) {
  const cell = html("span", "cell");
  cell.dataset.row = row;
  cell.dataset.column = column;
  cell.classList.toggle("empty", code === EMPTY);
  if (code === EMPTY) return cell;
  const [r, g, b, dark] = steps[code];
  cell.style.backgroundColor = `rgb(${r} ${g} ${b})`;
  cell.classList.add(dark ? "dark-text" : "light-text");
  cell.append(html("span", "number", text));
  return cell;
}

// Rows are painted where they belong, and for a moment shifted back to where they were.
function slide(before, rows) {
  if (still()) return;
  for (const [key, row] of rows) {
    const shift = before.has(key) ? before.get(key) - row.getBoundingClientRect().top : 0;
    if (shift) row.animate([{ transform: `translateY(${shift}px)` }, { transform: "none" }], { duration: 300, easing: "ease-in-out" });
  }
}
