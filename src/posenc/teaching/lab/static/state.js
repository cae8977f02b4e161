// The state of a room: the values of its controls as text, stored in the address so that a copied link restores it.
export class State {
  constructor() {
    Object.assign(this, { defaults: new Map(), texts: new Map(), onChange: () => {} });
    addEventListener("popstate", () => this.replace([...this.defaults.keys()], this.asked()));
  }

  asked() { return new URLSearchParams(location.search); }

  // Register a control's name and default value; a value in the address has priority.
  announce(name, fallback) {
    this.defaults.set(name, fallback);
    if (!this.texts.has(name)) this.texts.set(name, this.asked().get(name) ?? fallback);
  }

  get(name) { return this.texts.get(name); }

  set(name, text) { this.setAll(new Map([[name, text]])); }

  // Set values and update the address; a remembered change can be undone with the browser's Back.
  setAll(texts, remembered = false) {
    const changed = [...texts].filter(([name, text]) => this.texts.get(name) !== text);
    if (!changed.length) return;
    for (const [name, text] of changed) this.texts.set(name, text);
    const kept = new URLSearchParams(location.search).has("embed") ? "embed" : "";
    const search = [kept, this.query([...this.texts.keys()])].filter(Boolean).join("&");
    const address = location.pathname + (search && `?${search}`) + location.hash;
    // A page opened from disk may be unable to change its address; the state is then only in the page.
    try { history[remembered ? "pushState" : "replaceState"](null, "", address); } catch { /* see above */ }
    this.onChange(changed.map(([name]) => name));
  }

  // Set these parameters to their values in ``search``, or to their defaults.
  replace(names, search, remembered = false) {
    this.setAll(new Map(names.map((name) => [name, search.get(name) ?? this.defaults.get(name)])), remembered);
  }

  // The names and values of these parameters, without those at their defaults.
  pairs(names) {
    return names.filter((name) => this.texts.get(name) !== this.defaults.get(name)).map((name) => [name, this.texts.get(name)]);
  }

  query(names) { return new URLSearchParams(this.pairs(names)).toString(); }
}
