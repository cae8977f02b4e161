// The controls: each shows one text of the state and changes it; two controls of one name stay together.
import { chips } from "./chips.js";

export function wireControls(room, state) {
  const wired = [];
  for (const element of room.querySelectorAll("[data-kind][data-name]")) {
    const { name, kind } = element.dataset;
    state.announce(name, element.dataset.default);
    wired.push({ name, below: element.dataset.below, show: KINDS[kind](element, state, name) });
  }
  for (const form of room.querySelectorAll("form.controls")) form.addEventListener("submit", (event) => event.preventDefault());
  const show = (names) => {
    for (const each of wired) if (names.includes(each.name) || names.includes(each.below)) each.show(state.get(each.name));
  };
  show(wired.map((each) => each.name));
  return { show };
}

const KINDS = {
  // A slider with a button at either end, and a field for any number between the bounds.
  number(element, state, name) {
    const field = element.querySelector("input[type=number]");
    const slider = element.querySelector("input[type=range]");
    const stops = slider.dataset.stops?.split(" ").map(Number);
    const most = () => (element.dataset.below ? Number(state.get(element.dataset.below)) - 1 : Number(field.max));
    const within = (value) => Math.min(most(), Math.max(Number(field.min), value));
    const set = (value) => state.set(name, String(within(value)));
    const place = () => (stops ? nearest(stops, Number(state.get(name))) : Number(state.get(name)));
    const step = (by) => {
      if (!stops) return set(place() + by * Number(slider.step));
      return set(stops[Math.min(stops.length - 1, Math.max(0, place() + by))]);
    };
    field.addEventListener("change", () => {
      if (field.value !== "" && Number.isFinite(Number(field.value))) set(Number(field.value));
      field.value = state.get(name);
    });
    slider.addEventListener("input", () => set(stops ? stops[Number(slider.value)] : Number(slider.value)));
    for (const button of element.querySelectorAll("button[data-by]")) button.addEventListener("click", () => step(Number(button.dataset.by)));
    const show = (text) => {
      if (element.dataset.below) slider.max = most();
      const value = Number.isFinite(Number(text)) ? within(Number(text)) : text;
      field.value = value;
      slider.value = stops ? String(nearest(stops, Number(value))) : value;
      slider.setAttribute("aria-valuetext", value);
    };
    wirePlay(element.querySelector(".play"), slider, step);
    return show;
  },

  switch(element, state, name) {
    const box = element.querySelector("input");
    box.addEventListener("change", () => state.set(name, box.checked ? "1" : "0"));
    return (text) => { box.checked = text === "1"; };
  },

  choice(element, state, name) {
    const radios = [...element.querySelectorAll("input[type=radio]")];
    radios.forEach((radio) => radio.addEventListener("change", () => state.set(name, radio.value)));
    return (text) => radios.forEach((radio) => { radio.checked = radio.value === text; });
  },

  select(element, state, name) {
    const select = element.querySelector("select");
    select.addEventListener("change", () => state.set(name, select.value));
    return (text) => { select.value = text; };
  },

  text(element, state, name) {
    const field = element.querySelector("input");
    field.addEventListener("change", () => {
      const text = field.value.trim().replace(/\s+/g, " ");
      const arrangement = element.closest("form").querySelector(`.arrangement[data-of="${name}"]`);
      if (!arrangement) return state.set(name, text);
      // Another number of words needs an arrangement of its own: reversed, as at the start.
      const reversed = text.split(" ").map((_, i, words) => words.length - 1 - i).join("-");
      return state.setAll(new Map([[name, text], [arrangement.dataset.name, reversed]]));
    });
    return (text) => { field.value = text; };
  },

  // A text that is pasted loses its spaces, so that the address can carry it.
  pasted(element, state, name) {
    const field = element.querySelector("textarea");
    field.addEventListener("change", () => {
      try { state.set(name, JSON.stringify(JSON.parse(field.value))); } catch { state.set(name, field.value); }
    });
    return (text) => { field.value = text; };
  },

  arrangement: chips,
};

// Play runs from here to the slider's end, a step at a time, and starts over from its beginning.
function wirePlay(button, slider, step) {
  if (!button) return;
  let running = null;
  const stop = () => {
    clearInterval(running);
    running = null;
    button.textContent = "▶";
    button.setAttribute("aria-pressed", "false");
  };
  button.addEventListener("click", () => {
    if (running) return stop();
    if (slider.value === slider.max) {
      slider.value = slider.min;
      slider.dispatchEvent(new Event("input"));
    }
    button.textContent = "❚❚";
    button.setAttribute("aria-pressed", "true");
    running = setInterval(() => (slider.value === slider.max || !button.checkVisibility() ? stop() : step(1)), 600);
    return undefined;
  });
}

function nearest(stops, value) {
  let best = 0;
  stops.forEach((stop, i) => { if (Math.abs(stop - value) < Math.abs(stops[best] - value)) best = i; });
  return best;
}
