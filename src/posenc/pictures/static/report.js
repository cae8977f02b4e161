// The page of a report: every figure is painted from a scene in the page, and its table below starts closed.
import { Figure, valueAt } from "./figure.js";
import { onPaper } from "./paper.js";
import { savePicture } from "./picture.js";

const figures = [...document.querySelectorAll("figure.scene")].map((element) => {
  const find = (selector) => element.querySelector(selector);
  const [panels, probe] = [find(".panels"), find(".probe")];
  const scene = JSON.parse(find("script").textContent);
  const look = (i) => (row, column) => { probe.textContent = valueAt(scene.panels[i], row, column); };
  element.classList.add("painted");
  find("details").open = false;
  for (const link of element.querySelectorAll("button")) link.addEventListener("click", () => savePicture(panels, element.id, link.dataset.kind));
  const figure = new Figure(panels, (i) => ({ look: look(i), choose: () => null, move: () => {} }));
  figure.show(scene.panels);
  return figure;
});
onPaper(() => figures.forEach((figure) => figure.repaint()));
