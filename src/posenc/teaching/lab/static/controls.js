// The controls: each shows and changes one value of the state; controls with the same name show the same value.
import { chips } from "./chips.js";
import { button } from "./paint/elements.js";

export function wireControls(room, state) {
  const wired = [...room.querySelectorAll("[data-kind][data-name]")].map((element) => {
    const { name, kind, below } = element.dataset;
    state.announce(name, element.dataset.default);
    return { name, below, show: KINDS[kind](element, state, name) };
  });
  for (const form of room.querySelectorAll("form.controls")) form.addEventListener("submit", (event) => event.preventDefault());
  const show = (names) => wired.forEach((each) => (names.includes(each.name) || names.includes(each.below)) && each.show(state.get(each.name)));
  show(wired.map((each) => each.name));
  return { show };
}

const KINDS = { number, arrangement: chips, switch: field, choice: field, text, pasted };

// A checkbox, list, group of radio buttons or text field, whose value is the state's text.
function field(element, state, name, changed = (value) => state.set(name, value)) {
  const inputs = [...element.querySelectorAll("input, select, textarea")];
  const boxed = (input) => input.matches("[type=checkbox], [type=radio]");
  for (const input of inputs) input.addEventListener("change", () => changed(boxed(input) && !input.checked ? "0" : input.value));
  return (value) => inputs.forEach((input) => { input[boxed(input) ? "checked" : "value"] = boxed(input) ? input.value === value : value; });
}

function text(element, state, name) {
  return field(element, state, name, (value) => {
    const words = value.trim().split(/\s+/);
    const texts = new Map([[name, words.join(" ")]]);
    // A new sentence may have another number of words, so its words are arranged in reverse, as by default.
    const arrangement = element.closest("form").querySelector(`.arrangement[data-of="${name}"]`);
    if (arrangement) texts.set(arrangement.dataset.name, words.map((_, i) => words.length - 1 - i).join("-"));
    state.setAll(texts);
  });
}

// Pasted JSON loses its spaces, so that it fits into the address.
function pasted(element, state, name) {
  return field(element, state, name, (value) => {
    try { state.set(name, JSON.stringify(JSON.parse(value))); } catch { state.set(name, value); }
  });
}

// A slider with fixed stops and a button at each end, and a field for any number.
function number(element, state, name) {
  const [typed, slider] = ["number", "range"].map((type) => element.querySelector(`input[type=${type}]`));
  const { below } = element.dataset;
  const stops = slider.dataset.stops.split(" ").map(Number);
  const within = (value) => (below ? Math.min(value, Number(state.get(below)) - 1) : value); // the library checks other bounds
  const set = (value) => state.set(name, String(within(value)));
  const step = (by, now = Number(state.get(name))) => set((by > 0 ? stops.find((stop) => stop > now) : stops.findLast((stop) => stop < now)) ?? now);
  typed.addEventListener("change", () => {
    // A saved page has answers only for the slider's stops, so a typed number becomes the nearest stop.
    const given = "nearest" in typed.dataset ? stops[nearest(stops, Number(typed.value))] : Number(typed.value);
    if (typed.value !== "" && Number.isFinite(given)) set(given);
    typed.value = state.get(name);
  });
  slider.addEventListener("input", () => set(stops[slider.value]));
  for (const end of element.querySelectorAll("button[data-by]")) end.addEventListener("click", () => step(Number(end.dataset.by)));
  if ("play" in element.dataset) slider.parentElement.append(play(element.dataset.play, slider, step));
  return (value) => {
    const shown = Number.isFinite(Number(value)) ? within(Number(value)) : value;
    typed.value = shown;
    slider.max = nearest(stops, within(stops.at(-1)));
    slider.value = nearest(stops, Number(shown));
    slider.setAttribute("aria-valuetext", shown);
  };
}

// Play moves the slider step by step to its end; at the end, it starts over from the beginning.
function play(words, slider, step) {
  let running = null;
  const set = (timer) => {
    clearInterval(running);
    running = timer;
    made.textContent = timer ? "❚❚" : "▶";
    made.setAttribute("aria-pressed", Boolean(timer));
  };
  const made = button("▶", () => {
    if (running) return set(null);
    if (slider.value === slider.max) {
      slider.value = 0;
      slider.dispatchEvent(new Event("input"));
    }
    return set(setInterval(() => (slider.value === slider.max || !made.checkVisibility() ? set(null) : step(1)), 600));
  }, { class: "play", "aria-label": words });
  return made;
}

function nearest(stops, value) {
  const far = stops.map((stop) => Math.abs(stop - value));
  return far.indexOf(Math.min(...far));
}
