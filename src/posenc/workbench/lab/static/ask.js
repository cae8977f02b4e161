// Asking: the server, or the answers that a page holds; one request in flight, the newest wish next.
import { bytes, html } from "./paint/elements.js";

export class Newest {
  constructor(answered, refused) {
    Object.assign(this, { answered, refused, busy: false, wish: null, leaving: new AbortController() });
    addEventListener("pagehide", () => this.leaving.abort());
  }

  ask(wish) {
    this.wish = wish;
    if (!this.busy) this.next();
  }

  async next() {
    this.busy = true;
    while (this.wish !== null) {
      const wish = this.wish;
      this.wish = null;
      try {
        this.answered(await wish.get(this.leaving.signal), wish);
      } catch (error) {
        if (error.name !== "AbortError") this.refused(error, wish);
      }
    }
    this.busy = false;
  }
}

export async function getJson(address, signal) {
  let reply;
  try {
    reply = await fetch(address, { signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The lab does not answer. Is its terminal still running?");
  }
  const content = await reply.json();
  if (!reply.ok) throw new Error(content.error);
  return content;
}

// What a page holds: texts in the page itself ("#"), or in files that are classic scripts, so that they open from disk.
const packs = new Map();

export function held(file, name) {
  if (!packs.has(name)) packs.set(name, (file === "#" ? inPage(name) : inFile(file, name)).then(unpacked));
  return packs.get(name);
}

async function inPage(name) {
  const texts = [...document.querySelectorAll("script.held")].map((element) => JSON.parse(element.textContent));
  return texts.find((text) => text.name === name).pack;
}

const inFile = (file, name) => new Promise((resolve, reject) => {
  const load = () => resolve(globalThis.posencHeld[name]);
  const error = () => reject(new Error(`${file} does not lie beside this page. Copy the whole folder.`));
  document.head.append(html("script", { src: file, load, error }));
});

async function unpacked(pack) {
  const stream = new Blob([bytes(pack)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const parts = await new Response(stream).json();
  // What is longer than a reference is kept once: {"#": 3} stands for the third part, and the last is the whole.
  const whole = (value) => {
    if (Array.isArray(value)) return value.map(whole);
    if (value === null || typeof value !== "object") return value;
    if ("#" in value) return whole(parts[value["#"]]);
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, whole(part)]));
  };
  return { content: parts.at(-1), whole };
}
