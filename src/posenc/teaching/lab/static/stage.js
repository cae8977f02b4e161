// One stage: requests the answer for the state, paints the panels, and updates readouts, table, Python and links.
import { getJson, newest, packed } from "./ask.js";
import { Figure, valueAt } from "./figure.js";
import { keep, recall } from "./keep.js";
import { ownWords } from "./own_words.js";
import { html } from "./paint/elements.js";
import { savePicture } from "./picture.js";

export class Stage {
  constructor(section, state) {
    const { question, number, parameters, picks = "", answers: file } = section.dataset;
    const [names, picked] = [parameters, picks].map((list) => list.split(" ").filter(Boolean));
    Object.assign(this, { section, state, question, number, file, parameters: names, picks: picked, awake: false, pick: 0 });
    this.find = (selector) => section.querySelector(selector);
    this.saved = document.documentElement.hasAttribute("data-saved");
    this.askPicture = newest((view, wish) => this.paint(view, wish), (error, wish) => this.settle(wish, error.message));
    this.askValue = newest(({ text }) => this.tell(text), () => {});
    this.wireLinks();
    this.wireGuess();
    this.figure = new Figure(this.find(".panels"), (i) => ({
      look: (row, column) => this.look(i, row, column),
      choose: (row, column, at) => this.choose(i, row, column, at),
      move: (argument, value) => this.move(argument, value),
    }), this.picks.length > 0);
  }

  // The state to show: the room's state, or, until the reader guesses, the state that does not show the answer.
  shown() {
    if (!this.before) return this.state.pairs(this.parameters);
    return this.parameters.filter((name) => this.before.has(name)).map((name) => [name, this.before.get(name)]);
  }

  // The server's address of a part of this stage in the state that is shown.
  address(kind = "api", part = "", extra = "") {
    const query = [new URLSearchParams(this.shown()).toString(), extra].filter(Boolean).join("&");
    return `/${kind}/${this.question}${part}${query && `?${query}`}`;
  }

  // A request for the answer to the current state, from the server or from the saved page.
  wish() {
    const name = this.address();
    const key = this.shown().map(([each, text]) => `${each}=${text}`).join("&");
    const answer = async () => (this.file ? this.held(await packed(this.file, this.question), key) : getJson(name));
    const get = () => {
      const late = setTimeout(() => this.find(".panels").setAttribute("aria-busy", true), 100); // settle() removes it
      return answer().finally(() => clearTimeout(late));
    };
    return { name, get };
  }

  // The saved answer to a state, or, for the reader's own sentence, an answer that the page computes.
  held(content, key) {
    if (key in content) return content[key];
    if (this.parameters.includes("sentence")) return ownWords(content, new Map(this.shown()));
    const count = Object.keys(content).length;
    throw new Error(!count ? "The study of this page has no runs for this stage." : `This page has answers for ${count} states of this stage, but not for this one. Undo one step, or press Reset; posenc lab answers every state.`);
  }

  wake() {
    if (this.awake) return this.repaint();
    this.awake = true;
    return this.refresh();
  }

  refresh() {
    this.find("a.csv")?.setAttribute("href", this.address("export", ".csv"));
    if (!this.awake) return;
    this.askPicture(this.wish());
    this.fillTable();
  }

  paint(view, wish) {
    this.view = view;
    this.settle(wish, "");
    this.find(".answer").textContent = view.title;
    this.find(".python code").textContent = view.python;
    const answer = this.number ?? view.readouts.find(({ text }) => text.length <= 14)?.name;
    this.find(".readouts").replaceChildren(...view.readouts.map(({ name, text }) => (
      html("div", name === answer ? { class: "number" } : {}, html("dt", {}, name), html("dd", { class: text.length > 14 ? "words" : "" }, text)))));
    this.figure.show(view.panels);
  }

  repaint() { this.figure.repaint(); }

  // End the wait with an answer, or with an error message, which names a control by its label.
  settle(wish, words) {
    this.find(".panels").removeAttribute("aria-busy");
    this.find(".waiting")?.remove();
    this.find(".error").hidden = !words;
    this.find(".error").textContent = words.replace(/^\w+(?==)/, (name) => this.find(`div[data-argument="${name}"] label`)?.textContent ?? name);
    this.section.classList.toggle("stale", Boolean(words));
    this.section.dataset.answered = wish.name;
  }

  tell(words) { this.find(".probe").textContent = words; }

  // Show the value under the pointer, from the saved page or from the server.
  look(panel, row, column) {
    const asked = this.address("api", "/at", `panel=${panel}&row=${row}&column=${column}`);
    if (this.file) this.tell(valueAt(this.view.panels[panel], row, column));
    else this.askValue({ get: () => getJson(asked) });
  }

  // Touching a column or row sets the control whose mark is dragged, or else the controls in turn.
  choose(panel, row, column, dragged) {
    if (!this.picks.length || this.before) return null;
    const { picked } = this.view.panels[panel];
    if (!picked) return null;
    if (picked === "both") {
      this.state.setAll(new Map([[this.picks[0], String(row)], [this.picks[1], String(column)]]));
      return 0;
    }
    const pick = dragged ?? this.pick++ % this.picks.length;
    this.state.set(this.picks[pick], String(picked === "rows" ? row : column));
    return pick;
  }

  move(argument, value) {
    const typed = this.find(`[data-argument="${argument}"] [type=number]`);
    if (!this.before) Object.assign(typed, { value }).dispatchEvent(new Event("change"));
  }

  wireLinks() {
    const { find, state } = this;
    const clicked = (selector, act) => this.section.querySelectorAll(selector).forEach((element) => element.addEventListener("click", (event) => act(event, element)));
    find("details.data")?.addEventListener("toggle", () => this.fillTable());
    clicked(".reset", () => state.replace(this.parameters, new URLSearchParams(), true));
    clicked(".copy-python", () => this.copy(find(".python code").textContent, "Python copied"));
    clicked(".copy-link", () => {
      const here = this.saved || !["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
      this.copy(this.link(), here ? "Link copied" : "Link copied. It opens on this computer while the lab runs; to share it, type posenc lab --export FOLDER.");
    });
    clicked(".embed", () => {
      const address = this.link("embed").replaceAll("&", "&amp;");
      this.copy(`<iframe src="${address}" width="960" height="640" title="${find("h2").textContent}"></iframe>`, "Embed copied");
    });
    clicked(".save", (event, { dataset }) => savePicture(find(".panels"), `posenc-${this.question}`, dataset.kind));
  }

  link(first = "") {
    const query = [first, this.state.query(this.parameters)].filter(Boolean).join("&");
    return `${location.href.split(/[?#]/)[0]}${query && `?${query}`}#${this.section.id}`;
  }

  async copy(text, words) {
    const done = this.find(".done");
    const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    done.textContent = copied ? words : text; // no clipboard: show the text instead
    setTimeout(() => { done.textContent = ""; }, 8000);
  }

  // Ask for a guess once: not if the reader has guessed before, or if the address contains a state.
  wireGuess() {
    const asked = this.find(".guess");
    if (!asked) return;
    if (this.state.query(this.parameters) || this.question in recall("guesses", {})) return this.answered();
    this.before = new URLSearchParams(asked.dataset.before);
    asked.addEventListener("click", ({ target }) => target.matches("button") && this.judge(asked, target));
  }

  // Judge the guess in words, and move the picture to the state that shows the answer.
  judge({ dataset, children }, chosen) {
    const said = [...children].indexOf(chosen) - 1;
    keep("guesses", { ...recall("guesses", {}), [this.question]: said });
    this.find(".verdict").replaceChildren(html("span", { class: "quiet" }, children[0].textContent), " ", html("strong", {}, `“${chosen.textContent}” is ${said === Number(dataset.right) ? "right" : "wrong"}.`), ` ${chosen.dataset.why}`);
    this.answered();
    delete this.section.dataset.answered;
    this.state.replace(this.parameters, new URLSearchParams(dataset.after), true);
    this.refresh();
  }

  answered() {
    this.before = null;
    this.section.classList.remove("guessing");
    this.find(".guess")?.remove();
  }

  async fillTable() {
    if (!this.find("details.data")?.open) return;
    const tables = await getJson(this.address("api", "/table")).catch(() => []);
    this.find(".tables").replaceChildren(...tables.map(tableElement));
  }
}

function tableElement({ caption, head, rows, note }) {
  const row = (tag, words, scope) => html("tr", {}, html("th", { scope }, words[0]), ...words.slice(1).map((each) => html(tag, tag === "th" ? { scope } : {}, each)));
  const words = html("caption", {}, note ? `${caption}. ${note}` : caption);
  const body = html("tbody", {}, ...rows.map((cells) => row("td", cells, "row")));
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, html("table", {}, words, html("thead", {}, row("th", head, "col")), body));
}
