// Choose the painter of a panel. A heatmap in which only rows or only columns can be picked is always a canvas.
import { Canvas } from "./canvas.js";
import { Lines } from "./lines.js";
import { Matrix } from "./matrix.js";
import { Plane } from "./plane.js";

export function painter(panel, picked) {
  if (panel.kind === "heatmap") return panel.texts && (!picked || ["", "both"].includes(panel.picked)) ? Matrix : Canvas;
  return { lines: Lines, plane: Plane }[panel.kind];
}
