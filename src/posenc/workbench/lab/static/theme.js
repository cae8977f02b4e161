// Sets the chosen theme before anything is painted; "light" or "dark" in this browser's own storage, else the system's.
"use strict";
{
  let chosen = null;
  try { chosen = localStorage.getItem("posenc-theme"); } catch { /* storage is off: follow the system */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
