// The steps of the heatmaps' scales, asked once, or in the page itself.
import { getJson } from "../ask.js";
import { isDark } from "../theme_button.js";

const own = document.getElementById("tones");
let tables = own && JSON.parse(own.textContent);

// No heatmap is painted before this has been waited for; what failed is asked again by the next.
export async function toned() { tables ??= await getJson("/colours.json"); }
export const tones = (scale) => tables[scale][isDark() ? "dark" : "light"] ?? tables[scale].light;
