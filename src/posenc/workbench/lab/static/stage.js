// One stage: asks its question for the state, paints the panels, and keeps readouts, table, Python and links true.
import { Newest, getJson, held } from "./ask.js";
import { cell, html } from "./paint/elements.js";
import { painter } from "./paint/painter.js";
import { savePicture } from "./picture.js";

export class Stage {
  constructor(section, state) {
    this.section = section;
    this.state = state;
    this.question = section.dataset.question;
    this.parameters = section.dataset.parameters.split(" ").filter(Boolean);
    this.picks = (section.dataset.picks ?? "").split(" ").filter(Boolean);
    this.find = (selector) => section.querySelector(selector);
    this.awake = false;
    this.pick = 0;
    this.panels = [];
    this.pictures = new Newest((view, wish) => this.paint(view, wish), (error, wish) => this.refuse(error, wish));
    this.values = new Newest(({ text }) => { this.find(".probe").textContent = text; }, () => {});
    this.wireLinks();
    this.wireGuess();
    new ResizeObserver(() => this.repaint()).observe(this.find(".panels"));
  }

  address(part = "", extra = "") {
    const query = [this.state.query(this.parameters), extra].filter(Boolean).join("&");
    return `/api/${this.question}${part}${query && `?${query}`}`;
  }

  // A wish for the answer to the present state: of the server, or of what the page holds.
  wish() {
    const name = this.address();
    const file = this.section.dataset.held;
    if (!file) return { name, get: (signal) => getJson(name, signal) };
    const key = this.state.pairs(this.parameters).map(([each, text]) => `${each}=${text}`).join("&");
    return { name, get: async () => this.fromHeld(await held(file, this.question), key) };
  }

  fromHeld({ content, whole }, key) {
    if (key in content) return whole(content[key]);
    const count = Object.keys(content).length;
    throw new Error(`This page holds ${count} states of this stage, and not this one. Take one step back, or Reset; posenc lab answers every state.`);
  }

  wake() {
    if (this.awake) return this.repaint();
    this.awake = true;
    return this.refresh();
  }

  refresh() {
    const query = this.state.query(this.parameters);
    const tail = query && `?${query}`;
    if (!this.section.dataset.held) {
      for (const link of this.section.querySelectorAll("a.export")) link.href = `/export/${this.question}.${link.dataset.kind}${tail}`;
    }
    if (this.find("a.save")) this.find("a.save").href = `/save/${this.question}.html${tail}`;
    if (!this.awake) return;
    this.pictures.ask(this.wish());
    if (this.find("details.data")?.open) this.fillTable();
  }

  paint(view, wish) {
    this.view = view;
    const holder = this.find(".panels");
    holder.removeAttribute("aria-busy");
    holder.querySelector(".waiting")?.remove();
    this.error("");
    while (this.panels.length > view.panels.length) this.panels.pop().element.remove();
    view.panels.forEach((panel, i) => {
      const make = painter(panel, this.picks.length > 0);
      if (!(this.panels[i] instanceof make)) {
        const fresh = new make({
          look: (row, column) => this.look(i, row, column),
          choose: (row, column, at) => this.choose(i, row, column, at),
          move: (argument, value) => this.move(argument, value),
        });
        if (this.panels[i]) this.panels[i].element.replaceWith(fresh.element);
        else holder.append(fresh.element);
        this.panels[i] = fresh;
      }
    });
    this.find(".answer").textContent = view.title;
    this.find(".python code").textContent = view.python;
    this.showReadouts(view.readouts);
    this.repaint();
    this.section.dataset.answered = wish.name;
  }

  repaint() {
    const holder = this.find(".panels");
    if (!this.view || !holder.clientWidth) return;
    holder.style.setProperty("--across", across(this.view.panels, holder));
    holder.classList.toggle("several", this.view.panels.length > 1);
    holder.classList.toggle("many", this.view.panels.length > 3);
    this.view.panels.forEach((panel, i) => this.panels[i].paint(panel, this.view.panels.length, i));
  }

  showReadouts(readouts) {
    this.find(".readouts").replaceChildren(...readouts.map(({ name, text }) => {
      const entry = html("div");
      entry.append(html("dt", "", name), html("dd", text.length > 14 ? "words" : "", text));
      return entry;
    }));
  }

  refuse(error, wish) {
    this.section.dataset.answered = wish.name;
    this.find(".panels").removeAttribute("aria-busy");
    this.find(".waiting")?.remove();
    this.error(error.message);
  }

  error(words) {
    const place = this.find(".error");
    place.hidden = !words;
    place.textContent = words;
    this.section.classList.toggle("stale", Boolean(words));
  }

  // What lies under the pointer: in the page where it has it, else of the library.
  look(panel, row, column) {
    const { probe, texts, keys } = this.view.panels[panel];
    if (!this.section.dataset.held) this.values.ask({ get: (signal) => getJson(this.address("/at", `panel=${panel}&row=${row}&column=${column}`), signal) });
    else if (probe) this.find(".probe").textContent = probe[column];
    else if (texts) this.find(".probe").textContent = `${keys[row]}, ${column}: ${texts[row][column]}`;
  }

  // A touched column (or row) sets a control: the one that is dragged, or each in its turn.
  choose(panel, row, column, dragged) {
    if (!this.picks.length) return null;
    const { picked } = this.view.panels[panel];
    if (picked === "both") {
      this.state.setAll(new Map([[this.picks[0], String(row)], [this.picks[1], String(column)]]));
      return 0;
    }
    const across = picked === "rows" ? row : column;
    const pick = dragged ?? this.pick++ % this.picks.length;
    this.state.set(this.picks[pick], String(across));
    return pick;
  }

  move(argument, value) {
    const control = this.find(`[data-argument="${argument}"], [data-name="${argument}"]`);
    this.state.set(control.dataset.name, String(value));
  }

  wireLinks() {
    const { find, state } = this;
    find("details.data")?.addEventListener("toggle", () => this.fillTable());
    find(".reset").addEventListener("click", () => state.replace(this.parameters, new URLSearchParams(), true));
    find(".copy-python").addEventListener("click", () => this.copy(find(".python code").textContent, "Python copied"));
    find(".copy-link").addEventListener("click", () => {
      const here = document.documentElement.hasAttribute("data-saved") || !["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
      this.copy(this.link(), here ? "Link copied" : "Link copied. It opens on this computer while the lab runs; to share, save this stage as a page.");
    });
    find(".embed")?.addEventListener("click", () => {
      const address = this.link("embed").replaceAll("&", "&amp;");
      this.copy(`<iframe src="${address}" width="960" height="640" title="${find("h2").textContent}"></iframe>`, "Embed copied");
    });
    if (this.section.dataset.held) {
      for (const link of this.section.querySelectorAll("a.export")) {
        link.addEventListener("click", (event) => { event.preventDefault(); savePicture(this, link.dataset.kind); });
      }
    }
  }

  link(first = "") {
    const query = [first, this.state.query(this.parameters)].filter(Boolean).join("&");
    return `${location.href.split(/[?#]/)[0]}${query && `?${query}`}#${this.section.id}`;
  }

  async copy(text, words) {
    const done = this.find(".done");
    try {
      await navigator.clipboard.writeText(text);
      done.textContent = words;
    } catch {
      done.textContent = text; // no clipboard here: show what would have been copied
    }
    setTimeout(() => { done.textContent = ""; }, 8000);
  }

  wireGuess() {
    const guess = this.find(".guess");
    if (!guess) return;
    if (this.state.query(this.parameters)) this.reveal("");
    guess.addEventListener("click", (event) => {
      if (event.target.matches("button")) this.reveal(`You said: ${event.target.textContent}.`);
    });
  }

  reveal(words) {
    const guess = this.find(".guess");
    if (!guess || !this.find(".guessing")) return;
    this.find(".bench").classList.remove("guessing");
    guess.remove();
    this.find(".probe").textContent = words;
    this.repaint();
  }

  async fillTable() {
    if (!this.find("details.data").open) return;
    const tables = await getJson(this.address("/table")).catch(() => []);
    this.find(".tables").replaceChildren(...tables.map(tableElement));
  }
}

// How many panels stand beside each other, so that each is as large as it can be.
function across(panels, holder) {
  const shape = { lines: 1.5, plane: 0.9 }[panels[0].kind] ?? Math.min(2, Math.max(0.8, panels[0].shape[1] / panels[0].shape[0]));
  const narrow = matchMedia("(max-width: 50rem)").matches;
  if (narrow) return panels.length > 3 ? 2 : 1;
  let best = 1;
  let largest = 0;
  for (let count = 1; count <= panels.length; count += 1) {
    const size = Math.min(holder.clientWidth / count / shape, holder.clientHeight / Math.ceil(panels.length / count));
    if (size > largest * 1.02) [best, largest] = [count, size];
  }
  return best;
}

function tableElement({ caption, head, rows, note }) {
  const holder = html("div", "scroll");
  holder.tabIndex = 0;
  holder.setAttribute("role", "region");
  holder.setAttribute("aria-label", caption);
  const table = html("table");
  table.createCaption().textContent = note ? `${caption}. ${note}` : caption;
  const top = table.createTHead().insertRow();
  for (const words of head) top.append(cell("th", words, "col"));
  const body = table.createTBody();
  for (const [first, ...rest] of rows) body.insertRow().append(cell("th", first, "row"), ...rest.map((text) => cell("td", text)));
  holder.append(table);
  return holder;
}
