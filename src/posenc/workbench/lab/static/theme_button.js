// The button that switches between light and dark, and tells pictures to repaint when the paper changes.
import { keep } from "./keep.js";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

export function wireTheme(repaint) {
  const button = document.getElementById("theme");
  const show = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} paper`); };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    keep("theme", root.dataset.theme);
    show();
    repaint();
  });
  system.addEventListener("change", () => { show(); repaint(); });
  show();
}
