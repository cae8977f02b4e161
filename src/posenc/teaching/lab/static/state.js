// The state of a room: texts by name, kept in the address so that a copied link restores the page.
export class State {
  constructor() {
    Object.assign(this, { defaults: new Map(), texts: new Map(), onChange: () => {} });
    addEventListener("popstate", () => this.replace([...this.defaults.keys()], this.asked()));
  }

  asked() { return new URLSearchParams(location.search); }

  // A control announces its name and default; what the address says comes first.
  announce(name, fallback) {
    this.defaults.set(name, fallback);
    if (!this.texts.has(name)) this.texts.set(name, this.asked().get(name) ?? fallback);
  }

  get(name) { return this.texts.get(name); }

  set(name, text) { this.setAll(new Map([[name, text]])); }

  // A drag replaces the address; a step that can be undone is remembered.
  setAll(texts, remembered = false) {
    const changed = [...texts].filter(([name, text]) => this.texts.get(name) !== text);
    if (!changed.length) return;
    for (const [name, text] of changed) this.texts.set(name, text);
    const kept = new URLSearchParams(location.search).has("embed") ? "embed" : "";
    const search = [kept, this.query([...this.texts.keys()])].filter(Boolean).join("&");
    const address = location.pathname + (search && `?${search}`) + location.hash;
    // A page opened from disk may not always write it: then the state stays on the page.
    try { history[remembered ? "pushState" : "replaceState"](null, "", address); } catch { /* as said */ }
    this.onChange(changed.map(([name]) => name));
  }

  // These parameters take what the search says, or their defaults.
  replace(names, search, remembered = false) {
    this.setAll(new Map(names.map((name) => [name, search.get(name) ?? this.defaults.get(name)])), remembered);
  }

  // The names and texts of these parameters; defaults are left out.
  pairs(names) {
    return names.filter((name) => this.texts.get(name) !== this.defaults.get(name)).map((name) => [name, this.texts.get(name)]);
  }

  query(names) { return new URLSearchParams(this.pairs(names)).toString(); }
}
