// The steps of the heatmaps' scales, which the page holds.
import { isDark } from "../paper.js";

const tables = JSON.parse(document.getElementById("tones").textContent);

export const tones = (scale) => tables[scale][isDark() ? "dark" : "light"] ?? tables[scale].light;
