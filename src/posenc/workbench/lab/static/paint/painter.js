// Which painter paints a panel.
import { Canvas } from "./canvas.js";
import { Lines } from "./lines.js";
import { Matrix } from "./matrix.js";
import { Plane } from "./plane.js";

export function painter(panel) {
  if (panel.kind === "heatmap") return panel.texts ? Matrix : Canvas;
  return { lines: Lines, plane: Plane }[panel.kind];
}
