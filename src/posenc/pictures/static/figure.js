// The panels of a view, each with its own painter; the number of panels per row is the one that makes them largest.
import { painter } from "./paint/painter.js";
import { ROUNDS } from "./paint/panel.js";

export class Figure {
  // ``acts(i)`` returns the functions that panel i calls when the reader points at it or drags in it.
  constructor(holder, acts, picked = false) {
    Object.assign(this, { holder, acts, picked, panels: [], painters: [] });
    new ResizeObserver(() => this.repaint()).observe(holder);
  }

  show(panels) {
    this.panels = panels;
    while (this.painters.length > panels.length) this.painters.pop().element.remove();
    panels.forEach((panel, i) => {
      const make = painter(panel, this.picked);
      if (this.painters[i] instanceof make) return;
      const fresh = new make(this.acts(i));
      if (this.painters[i]) this.painters[i].element.replaceWith(fresh.element);
      else this.holder.append(fresh.element);
      this.painters[i] = fresh;
    });
    this.repaint();
  }

  repaint() {
    const { holder, panels } = this;
    if (!panels.length || !holder.clientWidth) return;
    const wide = across(panels, holder);
    const down = Math.ceil(panels.length / wide);
    const rows = down * Math.max(...panels.map(({ shape }) => shape?.[0] ?? 0));
    for (const [name, value] of Object.entries({ across: wide, down, rows })) holder.style.setProperty(`--${name}`, value);
    holder.classList.toggle("several", panels.length > 1);
    holder.classList.toggle("many", panels.length > 3);
    panels.forEach((panel, i) => this.painters[i].show(panel, panels.length, i));
    for (const round of ROUNDS) this.painters.forEach((each) => each[round]());
  }
}

// The text for one cell or point of a panel, or "" if the panel contains no text for it.
export function valueAt({ probe, texts, keys, heads, names }, row, column) {
  return probe?.[column] ?? (texts?.[row][column] && `${names[0]} ${keys[row]}, ${names[1]} ${heads[column]}: ${texts[row][column]}`) ?? "";
}

// The number of panels per row that makes the smallest panel largest; ties go to the largest total, then the fewest.
function across(panels, holder) {
  if (matchMedia("(max-width: 50rem)").matches) {
    const bare = panels.every(({ kind, texts }) => !texts && kind !== "lines"); // without names or numbers to read
    return 1 + (panels.length > 3 || (bare && panels.length > 1 && panels[0].kind === "heatmap")) + (bare && panels.length > 5);
  }
  const counts = panels.map((_, i) => i + 1);
  const sizes = counts.map((count) => panels.map((panel) => {
    const around = panel.kind === "plane" ? 20 : panel.texts ? 60 : 110; // names, ticks and bar
    return size(panel, holder.clientWidth / count - 24, holder.clientHeight / Math.ceil(panels.length / count) - around);
  })).map((each) => Math.min(...each) + each.reduce((sum, one) => sum + one) / 1e3);
  return counts[sizes.indexOf(Math.max(...sizes))];
}

// The size of a panel in this space: the font size of its numbers, up to 26, or its shorter side, scaled.
function size({ kind, shape, texts }, wide, tall) {
  if (kind === "lines") return Math.min(wide / 1.5, tall);
  if (kind === "plane") return Math.min(wide / 1.1, tall);
  const [rows, columns] = shape;
  if (!texts) return Math.min((wide - 44) / Math.min(2, Math.max(0.8, columns / rows)), tall);
  const letters = Math.max(...texts.flat().map((text) => text.length));
  return Math.min(26, (wide - 90) / columns / (0.66 * letters), (0.6 * tall) / rows); // 90 pixels are for the rows' names
}
