// Requests for answers, from the server or from a saved page: one at a time, and the newest waiting request next.
import { bytes, html } from "./paint/elements.js";

// Return a function that runs one request at a time. Of the requests made meanwhile, only the newest is kept.
export function newest(answered, refused) {
  let [wish, busy] = [null, false];
  return async (wished) => {
    wish = wished;
    if (busy) return;
    busy = true;
    while (wish) {
      const asked = wish;
      wish = null;
      try {
        answered(await asked.get(), asked);
      } catch (error) {
        if (error.name !== "AbortError") refused(error, asked);
      }
    }
    busy = false;
  };
}

// Leaving the page cancels its requests; after the browser's Back, the page can send requests again.
let leaving = new AbortController();
addEventListener("pagehide", () => { leaving.abort(); leaving = new AbortController(); });

export async function getJson(address) {
  let reply;
  try {
    reply = await fetch(address, { signal: leaving.signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The lab does not answer. Is posenc lab still running in its terminal?");
  }
  const content = await reply.json();
  if (!reply.ok) throw new Error(content.error);
  return content;
}

// The answers of a saved page are classic scripts, in the page or in separate files, so that they load from disk.
const packs = new Map();

export function packed(file, name) {
  if (!packs.has(name)) packs.set(name, taken(file, name).then(unpacked));
  return packs.get(name);
}

const taken = (file, name) => new Promise((resolve, reject) => {
  const load = () => resolve(globalThis.posencAnswers[name]);
  const error = () => reject(new Error(`${file} is not next to this page. Copy the whole folder.`));
  document.head.append(html("script", { src: file, load, error }));
});

async function unpacked(pack) {
  const stream = new Blob([bytes(pack)]).stream().pipeThrough(new DecompressionStream("gzip"));
  // One JSON part per line: {"#": 3} refers to the fourth line, and the last line is the complete content.
  const parts = [];
  const whole = (_, value) => parts[value?.["#"]] ?? value;
  for (const line of (await new Response(stream).text()).split("\n")) parts.push(JSON.parse(line, whole));
  return parts.at(-1);
}
