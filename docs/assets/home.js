// The home page's arrows: both words move on together, an eighth of a turn a position; nothing else changes.
const figure = document.querySelector(".arrows");
if (figure) {
  const [slider, button, group] = ["input", "button", ".turning"].map((name) => figure.querySelector(name));
  const [m, n] = [".m", ".n"].map((name) => figure.querySelector(name));
  let playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  let last = null;
  const draw = () => {
    const degrees = 45 * slider.valueAsNumber;
    group.setAttribute("transform", `rotate(${-degrees})`);
    for (const text of group.querySelectorAll("text")) {
      text.setAttribute("transform", `rotate(${degrees} ${text.getAttribute("x")} ${text.getAttribute("y")})`);
    }
    m.value = Math.round(slider.valueAsNumber);
    n.value = Math.round(slider.valueAsNumber) + 2;
  };
  const step = (now) => {
    if (!playing) return (last = null);
    slider.valueAsNumber = (slider.valueAsNumber + (now - (last ?? now)) / 1500) % 8;
    last = now;
    draw();
    requestAnimationFrame(step);
  };
  const play = (on) => {
    playing = on;
    button.textContent = on ? "Pause" : "Play";
    if (on) requestAnimationFrame(step);
  };
  slider.addEventListener("pointerdown", () => play(false));
  slider.addEventListener("input", () => (play(false), draw()));
  slider.addEventListener("change", () => ((slider.valueAsNumber = Math.round(slider.valueAsNumber)), draw()));
  button.addEventListener("click", () => play(!playing));
  button.hidden = false;
  play(playing);
}
