// The start of a page: one state, the controls that change it, and the stages that show it, one at a time.
import { wireControls } from "./controls.js";
import { keep, recall } from "./keep.js";
import { still } from "./motion.js";
import { html } from "./paint/elements.js";
import { Quiz } from "./quiz.js";
import { Stage } from "./stage.js";
import { State } from "./state.js";
import { wireTheme } from "./theme_button.js";

const room = document.getElementById("room");
const stages = [];
const seen = new Set(recall("seen", []));
wireTheme(() => stages.forEach((stage) => stage.repaint()));

if (room) {
  const state = new State();
  const controls = wireControls(room, state);
  for (const section of room.querySelectorAll("section.stage")) stages.push(new Stage(section, state));

  state.onChange = (names) => {
    controls.show(names);
    for (const stage of stages) if (names.some((name) => stage.parameters.includes(name))) stage.refresh();
  };

  const links = [...document.querySelectorAll("nav.stages a")];
  const [back, next] = [".back", ".next"].map((name) => document.querySelector(`.walk ${name}`));
  const onward = next?.getAttribute("href");
  // On the first visit to a room, its introduction is open if the window is wide enough.
  const about = document.querySelector(".about");
  if (about) about.open = innerWidth > 800 && !stages.some((stage) => seen.has(stage.question));

  const show = () => {
    const at = Math.max(0, stages.findIndex((stage) => `#${stage.section.id}` === location.hash));
    stages.forEach((stage, i) => stage.section.classList.toggle("current", i === at));
    scrollTo(0, 0);
    stages[at].wake();
    if (!next) return;
    seen.add(stages[at].question);
    keep("seen", [...seen]);
    links.forEach((link, i) => {
      link.toggleAttribute("aria-current", i === at);
      link.classList.toggle("seen", seen.has(stages[i].question));
    });
    back.hidden = at === 0;
    const onto = (i) => stages[i] && !(i > at && links[i].className.includes("more")) && `#${stages[i].section.id}`;
    back.href = onto(at - 1) || "#";
    next.href = onto(at + 1) || onward;
    next.querySelector(".onward").hidden = Boolean(onto(at + 1));
    // After scrollIntoView, Tab would start here and miss the link that skips to the room (Chromium 150).
    const rail = links[at].closest("nav");
    const [inner, outer] = [links[at], rail].map((item) => item.getBoundingClientRect());
    rail.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  };
  addEventListener("hashchange", () => { if (about) about.open = false; show(); });
  show();
  document.documentElement.classList.add("wired");

  // The first page plays for six seconds or until it is touched: both words move along the text and back.
  if (!next && !location.search && !still()) {
    const rest = [2, 3, 4, 5, 4, 3, 2, 1];
    const playing = setInterval(() => (rest.length ? state.set("m", String(rest.shift())) : clearInterval(playing)), 750);
    for (const touch of ["pointerdown", "keydown"]) addEventListener(touch, () => clearInterval(playing), { once: true });
  }

  // A suggestion's link changes the state without leaving the page, and the browser's Back undoes the change.
  room.addEventListener("click", (event) => {
    const link = event.target.closest("a.try");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const stage = stages.find((each) => each.section.contains(link));
    state.replace(stage.parameters, new URL(link.href).searchParams, true);
  });
}

const quiz = document.getElementById("quiz");
if (quiz) new Quiz(quiz);

// Show how much of each room or lesson section has been seen, and say when everything has been seen.
const done = new Set([...seen, ...Object.keys(recall("cards", {})).map((name) => `?${name}`)]);
const walks = [...document.querySelectorAll('[data-stages]:not([data-stages=""])')];
const left = walks.map((item) => {
  const all = item.dataset.stages.trim().split(" ");
  const unseen = all.filter((name) => !done.has(name)).length;
  if (unseen < all.length) item.querySelector(".quiet").append(unseen ? ` · ${all.length - unseen} of ${all.length} seen` : " · seen");
  return unseen;
});
if (walks.length && !left.some(Boolean)) document.querySelector(".start")?.prepend(html("strong", {}, "Tour complete: every main stage seen."));
