// Set the chosen theme before anything is painted, and mark the page as one that runs scripts.
"use strict";
{
  let chosen = null;
  try { chosen = JSON.parse(localStorage.getItem("posenc-theme")); } catch { /* storage is off: follow the system */ }
  const root = document.documentElement;
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  root.classList.add("scripted");
  if (new URLSearchParams(location.search).has("embed")) root.classList.add("embedded");
}
