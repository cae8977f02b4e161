// The current theme of a page: the reader's choice, or else the system's; always light in print.
const screen = matchMedia("screen");
const dark = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  const { theme } = document.documentElement.dataset;
  return screen.matches && (theme ? theme === "dark" : dark.matches);
}

export const onPaper = (act) => [screen, dark].forEach((each) => each.addEventListener("change", act));
