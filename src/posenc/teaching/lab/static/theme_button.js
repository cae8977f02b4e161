// The button that switches between the light and the dark theme, and repaints pictures when the theme changes.
import { keep } from "./keep.js";
import { isDark, onPaper } from "./paper.js";

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
    const chosen = other();
    document.documentElement.dataset.theme = chosen;
    keep("theme", chosen);
    show();
  });
  onPaper(show);
  show();
}
