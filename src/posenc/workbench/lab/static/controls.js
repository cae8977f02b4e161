// The controls: each shows one text of the state and changes it; two controls of one name stay together.
import { chips } from "./chips.js";

export function wireControls(room, state) {
  const wired = [];
  for (const element of room.querySelectorAll("[data-kind][data-name]")) {
    const { name, kind } = element.dataset;
    state.announce(name, element.dataset.default);
    wired.push({ name, show: KINDS[kind](element, state, name) });
  }
  for (const form of room.querySelectorAll("form.controls")) {
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  const show = (names) => wired.filter((each) => names.includes(each.name)).forEach((each) => each.show(state.get(each.name)));
  show(wired.map((each) => each.name));
  return { show };
}

const KINDS = {
  // A slider, buttons, or both, beside a field for any number between the bounds.
  number(element, state, name) {
    const field = element.querySelector("input[type=number]");
    const slider = element.querySelector("input[type=range]");
    const stops = slider?.dataset.stops?.split(" ").map(Number);
    const within = (value) => Math.min(Number(field.max), Math.max(Number(field.min), value));
    field.addEventListener("change", () => {
      if (field.value !== "" && Number.isFinite(Number(field.value))) state.set(name, String(within(Number(field.value))));
      else field.value = state.get(name);
    });
    slider?.addEventListener("input", () => state.set(name, String(stops ? stops[Number(slider.value)] : slider.value)));
    for (const button of element.querySelectorAll("button[data-by]")) {
      button.addEventListener("click", () => state.set(name, String(within(Number(state.get(name)) + Number(button.dataset.by)))));
    }
    return (text) => {
      field.value = text;
      if (!slider) return;
      slider.value = stops ? String(nearest(stops, Number(text))) : text;
      slider.setAttribute("aria-valuetext", text);
    };
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

  arrangement: chips,
};

function nearest(stops, value) {
  let best = 0;
  stops.forEach((stop, i) => { if (Math.abs(stop - value) < Math.abs(stops[best] - value)) best = i; });
  return best;
}
