// One stage: asks its question for the state, paints the panels, and keeps readouts, table, Python and links true.
import { Newest, getJson } from "./ask.js";
import { painter } from "./paint/painter.js";

export class Stage {
  constructor(section, state) {
    this.section = section;
    this.state = state;
    this.parameters = section.dataset.parameters.split(" ").filter(Boolean);
    this.picks = (section.dataset.picks ?? "").split(" ").filter(Boolean);
    this.find = (selector) => section.querySelector(selector);
    this.awake = false;
    this.pick = 0;
    this.panels = [];
    this.pictures = new Newest((view, address) => this.paint(view, address), (error, address) => this.refuse(error, address));
    this.values = new Newest(({ text }) => { this.find(".probe").textContent = text; }, () => {});
    this.wireMore();
    this.wireGuess();
    new ResizeObserver(() => this.repaint()).observe(this.find(".panels"));
  }

  address(part = "", extra = "") {
    const query = [this.state.query(this.parameters), extra].filter(Boolean).join("&");
    return `/api/${this.section.dataset.question}${part}${query && `?${query}`}`;
  }

  wake() {
    this.awake = true;
    this.refresh();
  }

  refresh() {
    for (const link of this.section.querySelectorAll("a.export")) {
      const query = this.state.query(this.parameters);
      link.href = `/export/${this.section.dataset.question}.${link.dataset.kind}${query && `?${query}`}`;
    }
    if (!this.awake) return;
    this.pictures.ask(this.address());
    if (this.find("details.data").open) this.fillTable();
  }

  paint(view, address) {
    this.view = view;
    const holder = this.find(".panels");
    holder.removeAttribute("aria-busy");
    holder.dataset.count = view.panels.length > 3 ? "many" : String(view.panels.length);
    holder.querySelector(".waiting")?.remove();
    this.error("");
    while (this.panels.length > view.panels.length) this.panels.pop().element.remove();
    view.panels.forEach((panel, i) => {
      const make = painter(panel, this.picks.length > 0);
      if (!(this.panels[i] instanceof make)) {
        const fresh = new make((row, column) => this.look(i, row, column), (row, column) => this.choose(i, row, column));
        if (this.panels[i]) this.panels[i].element.replaceWith(fresh.element);
        else holder.append(fresh.element);
        this.panels[i] = fresh;
      }
      this.panels[i].paint(panel, view.panels.length, i);
    });
    this.find(".answer").textContent = view.title;
    this.find(".python code").textContent = view.python;
    this.showReadouts(view.readouts);
    this.section.dataset.answered = address;
  }

  repaint() {
    if (this.view) this.view.panels.forEach((panel, i) => this.panels[i].paint(panel, this.view.panels.length, i));
  }

  showReadouts(readouts) {
    const list = this.find(".readouts");
    list.replaceChildren(...readouts.map(({ name, text }) => {
      const entry = document.createElement("div");
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      [term.textContent, value.textContent] = [name, text];
      value.classList.toggle("words", text.length > 14);
      entry.append(term, value);
      return entry;
    }));
  }

  refuse(error, address) {
    this.section.dataset.answered = address;
    this.find(".panels").removeAttribute("aria-busy");
    this.find(".waiting")?.remove();
    this.error(error.message);
  }

  error(words) {
    const place = this.find(".error");
    place.hidden = !words;
    place.textContent = words;
    this.find(".bench").classList.toggle("stale", Boolean(words));
  }

  look(panel, row, column) {
    this.values.ask(this.address("/at", `panel=${panel}&row=${row}&column=${column}`));
  }

  // A click or Enter on a picture sets the next of the parameters that this stage picks.
  choose(panel, row, column) {
    if (!this.picks.length) return;
    const across = this.view.panels[panel].picked === "rows" ? row : column;
    this.state.set(this.picks[this.pick % this.picks.length], String(across));
    this.pick += 1;
  }

  wireMore() {
    this.find("details.data").addEventListener("toggle", () => this.fillTable());
    this.find(".copy-python").addEventListener("click", () => this.copy(this.find(".python code").textContent, "Python copied"));
    this.find(".copy-link").addEventListener("click", () => {
      const query = this.state.query(this.parameters);
      this.copy(`${location.origin}${location.pathname}${query && `?${query}`}#${this.section.id}`, "Link copied");
    });
  }

  async copy(text, words) {
    const done = this.find(".done");
    try {
      await navigator.clipboard.writeText(text);
      done.textContent = words;
    } catch {
      done.textContent = text; // no clipboard here: show what would have been copied
    }
    setTimeout(() => { done.textContent = ""; }, 4000);
  }

  wireGuess() {
    const guess = this.find(".guess");
    if (!guess) return;
    if (this.state.query(this.parameters)) return this.reveal();
    this.find(".bench").classList.add("covered");
    guess.addEventListener("click", (event) => {
      if (!event.target.matches("button")) return;
      this.reveal();
      guess.querySelector("p").textContent = `You said: ${event.target.textContent}.`;
    });
    return undefined;
  }

  reveal() {
    const guess = this.find(".guess");
    if (!guess) return;
    this.find(".bench").classList.remove("covered");
    guess.querySelectorAll("button").forEach((button) => button.remove());
    guess.querySelector("p").textContent = "";
  }

  async fillTable() {
    if (!this.find("details.data").open) return;
    const tables = await getJson(this.address("/table")).catch(() => []);
    this.find(".tables").replaceChildren(...tables.map(tableElement));
  }
}

function tableElement({ caption, head, rows, note }) {
  const holder = document.createElement("div");
  holder.className = "scroll";
  holder.tabIndex = 0;
  holder.setAttribute("role", "region");
  holder.setAttribute("aria-label", caption);
  const table = document.createElement("table");
  table.createCaption().textContent = note ? `${caption}. ${note}` : caption;
  const top = table.createTHead().insertRow();
  for (const words of head) top.append(cell("th", words, "col"));
  const body = table.createTBody();
  for (const [first, ...rest] of rows) {
    const row = body.insertRow();
    row.append(cell("th", first, "row"), ...rest.map((text) => cell("td", text)));
  }
  holder.append(table);
  return holder;
}

function cell(tag, text, scope) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (scope) element.scope = scope;
  return element;
}
