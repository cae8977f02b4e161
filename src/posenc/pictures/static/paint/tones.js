// The colours of the heatmaps' scales, which are stored in the page.
import { isDark } from "../paper.js";

const tables = JSON.parse(document.getElementById("tones").textContent);

export const tones = (scale) => tables[scale][isDark() ? "dark" : "light"] ?? tables[scale].light;
