// The steps of the heatmaps' scales, asked once, or in the page itself.
import { getJson } from "../ask.js";
import { isDark } from "../theme_button.js";

const own = document.getElementById("tones");
let tables = null;

// Nothing is painted before this is kept.
export const toned = (own ? Promise.resolve(JSON.parse(own.textContent)) : getJson("/colours.json")).then((found) => { tables = found; });
export const tones = (scale) => tables[scale][isDark() ? "dark" : "light"];
