// The state of a room: texts by name, kept in the address so that a copied link restores the page.
export class State {
  constructor() {
    this.defaults = new Map();
    this.texts = new Map();
    this.onChange = () => {};
  }

  // A control announces its name and default; what the address says comes first.
  announce(name, fallback) {
    this.defaults.set(name, fallback);
    if (!this.texts.has(name)) this.texts.set(name, new URLSearchParams(location.search).get(name) ?? fallback);
  }

  get(name) { return this.texts.get(name); }

  set(name, text) { this.setAll(new Map([[name, text]])); }

  setAll(texts) {
    const changed = [...texts].filter(([name, text]) => this.texts.get(name) !== text).map(([name]) => name);
    if (!changed.length) return;
    for (const name of changed) this.texts.set(name, texts.get(name));
    const query = this.query([...this.texts.keys()]);
    history.replaceState(null, "", location.pathname + (query && `?${query}`) + location.hash);
    this.onChange(changed);
  }

  // These parameters take what the search says, or their defaults.
  replace(names, search) {
    this.setAll(new Map(names.map((name) => [name, search.get(name) ?? this.defaults.get(name)])));
  }

  // After the browser went back or on: everything as the address says.
  read() { this.replace([...this.defaults.keys()], new URLSearchParams(location.search)); }

  // The query for these parameters; defaults are left out.
  query(names) {
    const pairs = names.filter((name) => this.texts.get(name) !== this.defaults.get(name));
    return new URLSearchParams(pairs.map((name) => [name, this.texts.get(name)])).toString();
  }
}
