// Words in a row that can be dragged or moved by key; their order is a permutation such as 2-1-0.
export function chips(element, state, name) {
  const list = element.querySelector(".chips");
  const sentence = element.dataset.of;
  let dragged = -1;

  const order = () => state.get(name).split("-").map(Number);
  const move = (from, to) => {
    const places = order();
    if (to < 0 || to >= places.length || from === to) return;
    places.splice(to, 0, ...places.splice(from, 1));
    state.set(name, places.join("-"));
    list.children[to].querySelector("button").focus();
  };

  const chip = (word, place, count) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.draggable = true;
    button.textContent = word;
    button.setAttribute("aria-label", `${word}, place ${place + 1} of ${count}; left and right arrow keys move it`);
    button.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      move(place, place + by);
    });
    button.addEventListener("click", () => move(place, (place + 1) % count));
    button.addEventListener("dragstart", () => { dragged = place; });
    item.addEventListener("dragover", (event) => event.preventDefault());
    item.addEventListener("drop", (event) => { event.preventDefault(); move(dragged, place); });
    item.append(button);
    return item;
  };

  const show = () => {
    const words = (state.get(sentence) ?? "").split(" ");
    const places = order();
    list.replaceChildren(...places.map((from, place) => chip(words[from] ?? "?", place, places.length)));
  };
  const shuffle = document.createElement("button");
  shuffle.type = "button";
  shuffle.className = "plain";
  shuffle.textContent = "Turn by one";
  shuffle.addEventListener("click", () => {
    const places = order();
    state.set(name, [...places.slice(1), places[0]].join("-"));
  });
  element.append(shuffle);
  return show;
}
