// Asking: the server, or the answers that a page holds; one request in flight, the newest wish next.
import { bytes, html } from "./paint/elements.js";

// What is asked of this one at a time: of wishes that come meanwhile only the last is still got.
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

// Whoever leaves the page waits no longer; a page that comes back by the browser's Back asks anew.
let leaving = new AbortController();
addEventListener("pagehide", () => { leaving.abort(); leaving = new AbortController(); });

export async function getJson(address) {
  let reply;
  try {
    reply = await fetch(address, { signal: leaving.signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The lab does not answer. Is its terminal still running?");
  }
  const content = await reply.json();
  if (!reply.ok) throw new Error(content.error);
  return content;
}

// What a page holds: classic scripts, in the page or in files of their own, so that they open from disk.
const packs = new Map();

export function packed(file, name) {
  if (!packs.has(name)) packs.set(name, taken(file, name).then(unpacked));
  return packs.get(name);
}

const taken = (file, name) => new Promise((resolve, reject) => {
  const load = () => resolve(globalThis.posencAnswers[name]);
  const error = () => reject(new Error(`${file} does not lie beside this page. Copy the whole folder.`));
  document.head.append(html("script", { src: file, load, error }));
});

async function unpacked(pack) {
  const stream = new Blob([bytes(pack)]).stream().pipeThrough(new DecompressionStream("gzip"));
  // A part a line; {"#": 3} stands for the one after three others, and the last is the whole.
  const parts = [];
  const whole = (_, value) => parts[value?.["#"]] ?? value;
  for (const line of (await new Response(stream).text()).split("\n")) parts.push(JSON.parse(line, whole));
  return parts.at(-1);
}
