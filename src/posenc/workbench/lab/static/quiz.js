// The quiz: one card at a time, judged by the library; filters and card live in the address, answers nowhere.
import { getJson } from "./ask.js";
import { html } from "./paint/elements.js";

export class Quiz {
  constructor(holder) {
    this.holder = holder;
    this.right = new Set();
    this.judged = new Set();
    this.topic = document.getElementById("topic");
    this.stars = document.getElementById("stars");
    this.start();
  }

  async start() {
    try {
      this.cards = await getJson("/api/quiz");
    } catch (error) {
      this.holder.replaceChildren(html("p", "error", error.message));
      return;
    }
    const asked = new URLSearchParams(location.search);
    this.topic.value = asked.get("topic") ?? "";
    this.stars.value = asked.get("stars") ?? "";
    for (const filter of [this.topic, this.stars]) filter.addEventListener("change", () => this.show(0));
    const at = this.shown().findIndex((card) => card.name === asked.get("card"));
    this.show(Math.max(0, at), true);
  }

  shown() {
    return this.cards.filter((card) => (!this.topic.value || card.topic === this.topic.value) && (!this.stars.value || card.stars === Number(this.stars.value)));
  }

  show(index, first = false) {
    const shown = this.shown();
    document.getElementById("showing").textContent = `Showing ${shown.length} of ${this.cards.length}`;
    const card = shown[index];
    if (!card) {
      this.holder.replaceChildren(html("p", "prompt", shown.length ? this.summary() : "No card is both. Choose another topic or difficulty."));
      if (shown.length) this.holder.append(this.button("Start over", () => this.restart()));
      return;
    }
    this.remember(card, first);
    const element = html("article", "card");
    const topic = this.topic.querySelector(`option[value="${card.topic}"]`).textContent;
    const stars = html("span", "", ` · ${"★".repeat(card.stars)}${"☆".repeat(3 - card.stars)}`);
    stars.setAttribute("aria-label", ` difficulty ${card.stars} of 3`);
    stars.setAttribute("role", "img");
    const meta = html("p", "meta", `${index + 1} of ${shown.length} · ${topic}`);
    meta.append(stars);
    const prompt = html("h2", "prompt", card.prompt);
    prompt.tabIndex = -1;
    const verdict = html("div");
    verdict.setAttribute("role", "status");
    element.append(meta, prompt, this.form(card, verdict), verdict, this.steps(index, shown.length));
    this.holder.replaceChildren(element);
    this.holder.dataset.answered = card.name;
    if (!first) prompt.focus();
  }

  form(card, verdict) {
    if (card.form === "choice") return this.choices(card, verdict);
    const form = html("form", card.form === "number" ? "number" : "open");
    const field = html(card.form === "number" ? "input" : "textarea");
    field.setAttribute("aria-label", "Your answer");
    if (card.form === "number") Object.assign(field, { type: "text", inputMode: "decimal", autocomplete: "off", required: true });
    const submit = html("button", "", card.form === "number" ? "Answer" : "Compare");
    form.append(field, submit);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await this.judge(card, field.value || "-", verdict);
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
      judged = await getJson(`/api/quiz/check?${new URLSearchParams({ card: card.name, answer })}`);
    } catch (error) {
      verdict.replaceChildren(html("p", "error", error.message));
      return null;
    }
    const first = !this.judged.has(card.name);
    if (first && judged.right !== null) {
      this.judged.add(card.name);
      if (judged.right) this.right.add(card.name);
    }
    // A wrong choice keeps the answer back: there is another try.
    const open = judged.right !== false || card.form === "number";
    const said = judged.right === null ? "One good answer" : judged.right ? "Right" : "Not yet";
    verdict.replaceChildren(html("p", "verdict", said), html("p", "", open ? `${card.form === "number" ? `${judged.why} ` : ""}${judged.answer}` : "Try another."), html("p", "quiet", this.summary()));
    return judged;
  }

  summary() {
    return this.judged.size ? `${this.right.size} of ${this.judged.size} right at the first try.` : "";
  }

  steps(index, count) {
    const steps = html("p", "step");
    if (index > 0) steps.append(this.button("Back", () => this.show(index - 1)));
    steps.append(this.button(index + 1 < count ? "Next" : "Finish", () => this.show(index + 1)));
    return steps;
  }

  restart() {
    this.right.clear();
    this.judged.clear();
    this.show(0);
  }

  button(words, act) {
    const button = html("button", "", words);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  }

  remember(card, first) {
    const query = new URLSearchParams(Object.entries({ topic: this.topic.value, stars: this.stars.value, card: first ? "" : card.name }).filter(([, text]) => text));
    if (!first) history.replaceState(null, "", `${location.pathname}?${query}`);
  }
}
