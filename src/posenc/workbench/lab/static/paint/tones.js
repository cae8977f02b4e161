// The steps of the heatmaps' scales, asked once, or in the page itself.
import { getJson } from "../ask.js";
import { isDark } from "../theme_button.js";

const own = document.getElementById("tones");
const tables = own ? Promise.resolve(JSON.parse(own.textContent)) : getJson("/colours.json");

export const tones = async (scale) => (await tables)[scale][isDark() ? "dark" : "light"];
