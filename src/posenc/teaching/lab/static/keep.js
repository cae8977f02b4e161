// Values such as progress and theme, stored only in this browser; if storage is disabled, nothing is stored.
export function recall(name, fallback) {
  try { return JSON.parse(localStorage.getItem(`posenc-${name}`)) ?? fallback; } catch { return fallback; }
}

export function keep(name, value) {
  try { localStorage.setItem(`posenc-${name}`, JSON.stringify(value)); } catch { /* storage is off: keep nothing */ }
}
