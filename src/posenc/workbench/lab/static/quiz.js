// The cards: one at a time, filters and card in the address, what was right kept in this browser.
import { getJson, held } from "./ask.js";
import { keep, recall } from "./keep.js";
import { html } from "./paint/elements.js";

const FILTERS = {
  kind: (card, value) => (value === "interview" ? card.interview : card.kind === value),
  topic: (card, value) => card.topic === value,
  stars: (card, value) => card.stars === Number(value),
  lesson: (card, value) => card.lessons.includes(Number(value)),
  company: (card, value) => card.companies.includes(value),
};

export class Quiz {
  constructor(holder) {
    this.holder = holder;
    this.judged = new Map(Object.entries(recall("cards", {}))); // by card, whether the first try was right
    this.saved = document.documentElement.hasAttribute("data-saved");
    this.filters = Object.keys(FILTERS).map((name) => document.getElementById(name));
    this.start();
  }

  async start() {
    try {
      this.cards = this.saved ? await held("data/cards.js", "cards").then(({ content, whole }) => whole(content)) : await getJson("/api/quiz");
    } catch (error) {
      this.holder.replaceChildren(html("p", "error", error.message));
      return;
    }
    const asked = new URLSearchParams(location.search);
    for (const filter of this.filters) {
      filter.value = asked.get(filter.id) ?? "";
      filter.addEventListener("change", () => this.show(0));
    }
    const at = this.shown().findIndex((card) => card.name === asked.get("card"));
    this.show(Math.max(0, at), true);
  }

  shown() {
    const chosen = this.filters.filter((filter) => filter.value);
    return this.cards.filter((card) => chosen.every((filter) => FILTERS[filter.id](card, filter.value)));
  }

  show(index, first = false) {
    const shown = this.shown();
    document.getElementById("showing").textContent = `Showing ${shown.length} of ${this.cards.length}. ${this.summary()}`;
    const card = shown[index];
    if (!card) {
      this.holder.replaceChildren(html("p", "prompt", shown.length ? `That was the last. ${this.summary()}` : "No card is all of these. Choose another filter."));
      if (shown.length) this.holder.append(this.button("Start over", () => this.restart()));
      return;
    }
    if (!first) this.remember(card);
    const element = html("article", "card");
    const stars = html("span", "", ` · ${"★".repeat(card.stars)}${"☆".repeat(3 - card.stars)}`);
    stars.setAttribute("aria-label", ` difficulty ${card.stars} of 3`);
    stars.setAttribute("role", "img");
    const words = (id, value) => document.querySelector(`#${id} option[value="${value}"]`).textContent;
    const meta = html("p", "meta", `${index + 1} of ${shown.length} · ${words("kind", card.kind)} · ${words("topic", card.topic)}`);
    meta.append(stars);
    const prompt = html("h2", "prompt", card.prompt);
    prompt.tabIndex = -1;
    const verdict = html("div");
    verdict.setAttribute("role", "status");
    element.append(meta, prompt, this.form(card, verdict), verdict, this.steps(card, index, shown.length));
    this.holder.replaceChildren(element);
    this.holder.dataset.answered = card.name;
    if (!first) prompt.focus();
  }

  form(card, verdict) {
    if (card.form === "choice") return this.choices(card, verdict);
    const number = card.form === "number";
    const form = html("form", number ? "number" : "open");
    const field = html(number ? "input" : "textarea");
    field.setAttribute("aria-label", "Your answer");
    if (number) Object.assign(field, { type: "text", inputMode: "decimal", autocomplete: "off", required: true });
    form.append(field, html("button", "", number ? "Answer" : "Compare"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.judge(card, field.value || "-", verdict);
    });
    return form;
  }

  choices(card, verdict) {
    const list = html("ol");
    card.options.forEach((words, i) => {
      const item = html("li");
      const button = this.button(words, async () => {
        const judged = await this.judge(card, String(i), verdict);
        if (!judged) return;
        button.setAttribute("aria-pressed", "true");
        item.querySelector(".said")?.remove();
        item.append(html("p", "said", `${judged.right ? "Right." : "No."} ${judged.why}`));
      });
      item.append(button);
      list.append(item);
    });
    return list;
  }

  async judge(card, answer, verdict) {
    let judged;
    try {
      judged = this.saved ? judgedHere(card, answer) : await getJson(`/api/quiz/check?${new URLSearchParams({ card: card.name, answer })}`);
    } catch (error) {
      verdict.replaceChildren(html("p", "error", error.message));
      return null;
    }
    if (judged.right !== null && !this.judged.has(card.name)) {
      this.judged.set(card.name, judged.right);
      keep("cards", Object.fromEntries(this.judged));
    }
    // A wrong choice keeps the answer back: there is another try.
    const open = judged.right !== false || card.form === "number";
    const said = judged.right === null ? "One good answer" : judged.right ? "Right" : "Not yet";
    verdict.replaceChildren(html("p", "verdict", said), html("p", "", open ? `${card.form === "number" ? `${judged.why} ` : ""}${judged.answer}` : "Try another."), html("p", "quiet", this.summary()));
    return judged;
  }

  summary() {
    const right = [...this.judged.values()].filter(Boolean).length;
    return this.judged.size ? `${right} of ${this.judged.size} right at the first try.` : "";
  }

  steps(card, index, count) {
    const steps = html("p", "step");
    if (index > 0) steps.append(this.button("Back", () => this.show(index - 1)));
    steps.append(this.button(index + 1 < count ? "Next" : "Finish", () => this.show(index + 1)));
    if (card.stage) {
      const [room, stage] = card.stage.split("/");
      const link = html("a", "", "Where to see it");
      link.href = this.saved ? `${room}.html#${stage}` : `/${room}#${stage}`;
      steps.append(link);
    }
    return steps;
  }

  restart() {
    this.judged.clear();
    keep("cards", {});
    this.show(0);
  }

  button(words, act) {
    const button = html("button", "", words);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  }

  remember(card) {
    const query = new URLSearchParams([...this.filters.map((filter) => [filter.id, filter.value]), ["card", card.name]].filter(([, text]) => text));
    try { history.replaceState(null, "", `${location.pathname}?${query}`); } catch { /* a page opened from disk */ }
  }
}

// A saved page holds each choice's judgement, and each number with how near is near enough.
function judgedHere(card, answer) {
  if (card.form !== "number") return card.judged[Number(answer)] ?? card.judged[0];
  const given = Number(answer.replaceAll("−", "-").replace(/[\s\u202f,]/g, ""));
  if (!Number.isFinite(given)) throw new Error("This is not a number; write it like 60611 or -1.1");
  return Math.abs(given - card.truth) <= card.tolerance ? card.judged[0] : { ...card.judged[0], right: false, why: "The library computes another number." };
}
