// What this browser remembers for the reader: nothing leaves it, and a browser that forbids it is asked for nothing.
export function recall(name, fallback) {
  try { return JSON.parse(localStorage.getItem(`posenc-${name}`)) ?? fallback; } catch { return fallback; }
}

export function keep(name, value) {
  try { localStorage.setItem(`posenc-${name}`, JSON.stringify(value)); } catch { /* this page only */ }
}
