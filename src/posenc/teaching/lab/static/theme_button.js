// The button that switches between light and dark, and tells pictures to repaint when the paper changes.
import { keep } from "./keep.js";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

export function wireTheme(repaint) {
  const theme = document.getElementById("theme");
  const other = () => (isDark() ? "light" : "dark");
  const show = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${other()} paper`);
    repaint();
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = other();
    keep("theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}
