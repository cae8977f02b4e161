// The cards: one at a time, filters and card in the address, what was right kept in this browser.
import { getJson, held } from "./ask.js";
import { keep, recall } from "./keep.js";
import { button, html } from "./paint/elements.js";

const FILTERS = {
  kind: (card, value) => (value === "interview" ? card.interview : card.kind === value),
  topic: (card, value) => card.topic === value,
  stars: (card, value) => card.stars === Number(value),
  lesson: (card, value) => card.lessons.includes(Number(value)),
  company: (card, value) => card.companies.includes(value),
};

const words = (className, text) => html("p", { class: className }, text);

export class Quiz {
  constructor(holder) {
    this.holder = holder;
    this.judged = recall("cards", {}); // by card, whether the first try was right
    this.saved = document.documentElement.hasAttribute("data-saved");
    this.filters = Object.keys(FILTERS).map((name) => document.getElementById(name));
    const cards = this.saved ? held("data/cards.js", "cards").then(({ content, whole }) => whole(content)) : getJson("/api/quiz");
    cards.then((all) => this.start(all), (error) => holder.replaceChildren(words("error", error.message)));
  }

  start(cards) {
    this.cards = cards;
    const asked = new URLSearchParams(location.search);
    for (const filter of this.filters) {
      filter.value = asked.get(filter.id) ?? "";
      filter.addEventListener("change", () => this.show(0));
    }
    this.show(Math.max(0, this.shown().findIndex((card) => card.name === asked.get("card"))), true);
  }

  shown() {
    const chosen = this.filters.filter((filter) => filter.value);
    return this.cards.filter((card) => chosen.every((filter) => FILTERS[filter.id](card, filter.value)));
  }

  summary() {
    const tries = Object.values(this.judged);
    return tries.length ? `${tries.filter(Boolean).length} of ${tries.length} right at the first try.` : "";
  }

  show(index, first = false) {
    const shown = this.shown();
    document.getElementById("showing").textContent = `Showing ${shown.length} of ${this.cards.length}. ${this.summary()}`;
    const card = shown[index];
    if (!card) {
      this.holder.replaceChildren(words("prompt", shown.length ? `That was the last. ${this.summary()}` : "No card is all of these. Choose another filter."));
      if (shown.length) this.holder.append(button("Start over", () => this.restart()));
      return;
    }
    const named = (id) => document.querySelector(`#${id} option[value="${card[id]}"]`).textContent;
    const stars = html("span", { role: "img", "aria-label": ` difficulty ${card.stars} of 3` }, ` · ${"★".repeat(card.stars)}${"☆".repeat(3 - card.stars)}`);
    const meta = words("meta", `${index + 1} of ${shown.length} · ${named("kind")} · ${named("topic")}`);
    meta.append(stars);
    const prompt = html("h2", { class: "prompt", tabindex: -1 }, card.prompt);
    this.verdict = html("div", { role: "status" });
    const asked = card.form === "choice" ? this.choices(card) : this.form(card);
    this.holder.replaceChildren(html("article", { class: "card" }, meta, prompt, asked, this.verdict, this.steps(card, index, shown.length)));
    this.holder.dataset.answered = card.name;
    if (first) return;
    prompt.focus();
    const kept = [...this.filters.map((filter) => [filter.id, filter.value]), ["card", card.name]].filter(([, text]) => text);
    try { history.replaceState(null, "", `${location.pathname}?${new URLSearchParams(kept)}`); } catch { /* a page opened from disk */ }
  }

  choices(card) {
    return html("ol", {}, ...card.options.map(({ words: option, right, why }) => html("li", {}, button(option, ({ target }) => {
      target.setAttribute("aria-pressed", "true");
      target.nextSibling?.remove();
      target.after(words("said", `${right ? "Right." : "No."} ${why}`));
      // A wrong choice keeps the answer back: there is another try.
      this.judge(card, right, right ? card.answer : "Try another.");
    }))));
  }

  form(card) {
    const number = card.form === "number";
    const field = number ? html("input", { type: "text", inputmode: "decimal", autocomplete: "off", required: "" }) : html("textarea");
    field.setAttribute("aria-label", "Your answer");
    const submit = (event) => {
      event.preventDefault();
      const given = Number(field.value.replaceAll("−", "-").replace(/[\s\u202f,]/g, ""));
      const right = Math.abs(given - card.number) <= card.tolerance;
      if (!number) this.judge(card, null, card.answer);
      else if (!Number.isFinite(given)) this.verdict.replaceChildren(words("error", "This is not a number; write it like 60611 or -1.1"));
      else this.judge(card, right, `${right ? "As the library computes it." : "The library computes another number."} ${card.answer}`);
    };
    return html("form", { class: card.form, submit }, field, html("button", {}, number ? "Answer" : "Compare"));
  }

  judge(card, right, answer) {
    if (right !== null && !(card.name in this.judged)) {
      this.judged[card.name] = right;
      keep("cards", this.judged);
    }
    const said = right === null ? "One good answer" : right ? "Right" : "Not yet";
    this.verdict.replaceChildren(words("verdict", said), words("", answer), words("quiet", this.summary()));
  }

  steps(card, index, count) {
    const steps = words("step", "");
    if (index > 0) steps.append(button("Back", () => this.show(index - 1)));
    steps.append(button(index + 1 < count ? "Next" : "Finish", () => this.show(index + 1)));
    const [room, stage] = card.stage.split("/");
    if (stage) steps.append(html("a", { href: this.saved ? `${room}.html#${stage}` : `/${room}#${stage}` }, "Where to see it"));
    return steps;
  }

  restart() {
    this.judged = {};
    keep("cards", {});
    this.show(0);
  }
}
