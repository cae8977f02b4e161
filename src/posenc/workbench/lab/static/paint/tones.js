// The steps of the heatmaps' scales, asked once from the library's palette.
import { getJson } from "../ask.js";
import { isDark } from "../theme_button.js";

let tables = null;
const waiting = getJson("/colours.json").then((found) => { tables = found; });

export async function tones(scale) {
  await waiting;
  return tables[scale][isDark() ? "dark" : "light"];
}

export function decoded(text) {
  const raw = atob(text);
  const codes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) codes[i] = raw.charCodeAt(i);
  return codes;
}
