// The steps of the heatmaps' scales, asked once, or in the page itself.
import { getJson } from "../ask.js";
import { isDark } from "../theme_button.js";

const own = document.getElementById("tones");
const tables = own ? Promise.resolve(JSON.parse(own.textContent)) : getJson("/colours.json");

export async function tones(scale) {
  return (await tables)[scale][isDark() ? "dark" : "light"];
}

export function decoded(text) {
  const raw = atob(text);
  const codes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) codes[i] = raw.charCodeAt(i);
  return codes;
}
