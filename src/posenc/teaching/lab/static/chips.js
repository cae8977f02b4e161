// A row of words that are moved by mouse or keyboard; their order is a permutation such as 2-1-0.
import { arrowKey, button, html } from "./paint/elements.js";

export function chips(element, state, name) {
  const list = element.querySelector(".chips");
  let dragged = -1;

  const order = () => state.get(name).split("-").map(Number);
  const move = (from, to) => {
    const places = order();
    if (to < 0 || to >= places.length || from === to) return;
    places.splice(to, 0, ...places.splice(from, 1));
    state.set(name, places.join("-"));
    list.children[to].querySelector("button").focus();
  };

  const chip = (word, place, count) => html("li", {
    dragover: (event) => event.preventDefault(),
    drop: (event) => { event.preventDefault(); move(dragged, place); },
  }, button(word, () => move(place, (place + 1) % count), {
    draggable: true,
    "aria-label": `${word}, place ${place + 1} of ${count}; left and right arrow keys move it`,
    keydown: (event) => move(place, place + (arrowKey(event)?.[1] ?? 0)),
    dragstart: () => { dragged = place; },
  }));

  element.append(button("Rotate by one place", () => {
    const [first, ...rest] = order();
    state.set(name, [...rest, first].join("-"));
  }, { class: "plain" }));
  return () => {
    const words = (state.get(element.dataset.of) ?? "").split(" ");
    const places = order();
    list.replaceChildren(...places.map((from, place) => chip(words[from] ?? "?", place, places.length)));
  };
}
