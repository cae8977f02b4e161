// The page's start: one state, the controls that change it, and the stages that ask the library about it.
import { wireControls } from "./controls.js";
import { State } from "./state.js";
import { Stage } from "./stage.js";
import { wireTheme } from "./theme_button.js";
import { Quiz } from "./quiz.js";

const room = document.getElementById("room");
const stages = [];
const repaint = () => stages.forEach((stage) => stage.repaint());
wireTheme(repaint);

if (room) {
  const state = new State();
  const controls = wireControls(room, state);
  for (const section of room.querySelectorAll("section.stage")) stages.push(new Stage(section, state));

  state.onChange = (names) => {
    controls.show(names);
    for (const stage of stages) if (names.some((name) => stage.parameters.includes(name))) stage.refresh();
  };

  // A stage first asks when it comes near the window; the first one at once.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      stages.find((stage) => stage.section === entry.target).wake();
    }
  }, { rootMargin: "600px 0px" });
  stages.forEach((stage) => near.observe(stage.section));

  // A link to try sets the state without leaving the page.
  room.addEventListener("click", (event) => {
    const link = event.target.closest("a.try");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const url = new URL(link.href);
    const stage = stages.find((each) => `#${each.section.id}` === url.hash);
    stage.reveal();
    state.replace(stage.parameters, url.searchParams);
    stage.section.querySelector(".picture").scrollIntoView({ block: "nearest" });
  });
  addEventListener("popstate", () => state.read());
}

const quiz = document.getElementById("quiz");
if (quiz) new Quiz(quiz);
