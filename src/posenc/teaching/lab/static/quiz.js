// The cards, shown one at a time: the address contains the filters and the card, and this browser stores the score.
import { getJson } from "./ask.js";
import { keep, recall } from "./keep.js";
import { button, html } from "./paint/elements.js";

const fraction = (text) => text.split("/").map((part) => (part ? Number(part) : NaN)).reduce((over, under) => over / under);
const words = (className, text) => html("p", { class: className }, text);

export class Quiz {
  constructor(holder) {
    this.holder = holder;
    this.store = holder.dataset.store ?? "cards";
    this.judged = recall(this.store, {}); // for each card, whether the first try was right
    this.cards = [...holder.children];
    this.filters = [...document.querySelectorAll(".filters select")];
    const asked = new URLSearchParams(location.search);
    for (const filter of this.filters) {
      filter.value = asked.get(filter.id) ?? "";
      filter.addEventListener("change", () => this.show(0));
    }
    this.show(Math.max(0, this.shown().findIndex((card) => card.dataset.name === asked.get("card"))), true);
  }

  shown() {
    return this.cards.filter((card) => this.filters.every(({ id, value }) => !value || card.dataset[id].split("|").includes(value)));
  }

  summary() {
    const tries = Object.values(this.judged);
    return tries.length ? `${tries.filter(Boolean).length} of ${tries.length} right at the first try.` : "";
  }

  // Show a fresh copy of the card, without earlier answers.
  show(index, first = false) {
    const shown = this.shown();
    document.getElementById("showing").textContent = `Showing ${shown.length} of ${this.cards.length}. ${this.summary()}`;
    if (!shown[index]) {
      this.holder.replaceChildren(words("prompt", shown.length ? `That was the last. ${this.summary()}` : "No card matches all filters. Choose another filter."));
      if (shown.length) this.holder.append(button("Start over", () => this.restart()));
      return;
    }
    const card = shown[index].cloneNode(true);
    const [place, back, next, prompt] = [".place", ".back", ".next", ".prompt"].map((name) => card.querySelector(name));
    place.textContent = `${index + 1} of ${shown.length} · `;
    back.hidden = index === 0;
    back.addEventListener("click", () => this.show(index - 1));
    next.textContent = index + 1 < shown.length ? "Next" : "Finish";
    next.addEventListener("click", () => this.show(index + 1));
    card.querySelector("ol")?.addEventListener("click", ({ target }) => target.matches("button") && this.choose(card, target));
    card.querySelector(".run")?.addEventListener("click", () => this.run(card));
    card.querySelector("form")?.addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare(card, event.target.elements[0].value);
    });
    this.holder.replaceChildren(card);
    this.holder.dataset.answered = card.dataset.name;
    if (first) return;
    prompt.focus();
    const kept = [...this.filters.map((filter) => [filter.id, filter.value]), ["card", card.dataset.name]].filter(([, text]) => text);
    try { history.replaceState(null, "", `${location.pathname}?${new URLSearchParams(kept)}`); } catch { /* a page opened from disk */ }
  }

  // After a wrong choice, the answer stays hidden for another try; a claim shows its reason at once.
  choose(card, option) {
    const right = option.dataset.right === "1";
    option.setAttribute("aria-pressed", "true");
    option.nextElementSibling.hidden = false;
    this.judge(card, right, right || this.store === "claims" ? card.dataset.answer : "Try another.");
  }

  async compare(card, text) {
    if (card.querySelector("textarea")) return this.judge(card, null, card.dataset.answer);
    const plain = text.replace(/[\u2010-\u2015\u2212]/g, "-").replace(/\s/g, "");
    const readings = [plain.replace(/(?<=\d),(?=\d{3}(?!\d))/g, ""), plain.replace(",", ".")].map(fraction); // a comma groups thousands, or is a decimal point
    if (!readings.some(Number.isFinite)) return this.tell(card, words("error", "This is not a number; write it like 12345, 2/3 or -4.5"));
    try {
      const { number, tolerance, answer } = await computed(card.dataset);
      const right = readings.some((given) => Math.abs(given - number) <= tolerance);
      return this.judge(card, right, right ? `As the library computes it. ${answer}` : "The library computes another number. Try again.");
    } catch (error) {
      return this.tell(card, words("error", error.message));
    }
  }

  judge(card, right, answer) {
    const { name } = card.dataset;
    if (right !== null && !(name in this.judged)) {
      this.judged[name] = right;
      keep(this.store, this.judged);
    }
    if (right) card.querySelector(".run")?.removeAttribute("hidden");
    const said = right === null ? "One good answer" : right ? "Right" : this.store === "claims" ? "Why not" : "Not yet";
    this.tell(card, words("verdict", said), words("", answer), words("quiet", this.summary()));
  }

  // The library runs a claim; show every number that supports its verdict.
  async run(card) {
    this.tell(card, words("quiet", "The library is checking the claim …"));
    try {
      const { verdict, findings } = await getJson(`/api/claim/${card.dataset.name}`);
      this.tell(card, words("verdict", verdict), ...findings.map((found) => words("", found)), words("", card.dataset.answer));
    } catch (error) {
      this.tell(card, words("error", error.message));
    }
  }

  tell(card, ...said) { card.querySelector(".judged").replaceChildren(...said); }

  restart() {
    this.judged = {};
    keep(this.store, {});
    this.show(0);
  }
}

// A card's number, which the library computes: stored in a saved page, or requested from the server.
async function computed(card) {
  return card.number ? card : (await getJson("/api/quiz")).find(({ name }) => name === card.name);
}
