// The state of a room: texts by name, kept in the address so that a copied link restores the page.
export class State {
  // A page that was saved in a state begins in it, where its address says nothing else.
  constructor(start = "") {
    this.start = start;
    this.defaults = new Map();
    this.texts = new Map();
    this.onChange = () => {};
    addEventListener("popstate", () => this.replace([...this.defaults.keys()], this.asked()));
  }

  asked() { return new URLSearchParams(location.search || this.start); }

  // A control announces its name and default; what the address says comes first.
  announce(name, fallback) {
    this.defaults.set(name, fallback);
    if (!this.texts.has(name)) this.texts.set(name, this.asked().get(name) ?? fallback);
  }

  get(name) { return this.texts.get(name); }

  set(name, text) { this.setAll(new Map([[name, text]])); }

  // A drag replaces the address; a step that can be undone is remembered.
  setAll(texts, remembered = false) {
    const changed = [...texts].filter(([name, text]) => this.texts.get(name) !== text).map(([name]) => name);
    if (!changed.length) return;
    for (const name of changed) this.texts.set(name, texts.get(name));
    this.address(location.hash, remembered);
    this.onChange(changed);
  }

  // The address of this state at a stage; a page opened from disk may not always write it.
  address(hash, remembered) {
    const query = this.query([...this.texts.keys()]);
    const kept = [...new URLSearchParams(location.search)].filter(([name]) => name === "embed").map(([name]) => name);
    const search = [...kept, query].filter(Boolean).join("&");
    try {
      history[remembered ? "pushState" : "replaceState"](null, "", location.pathname + (search && `?${search}`) + hash);
    } catch { /* the state stays on the page */ }
  }

  // These parameters take what the search says, or their defaults.
  replace(names, search, remembered = false) {
    this.setAll(new Map(names.map((name) => [name, search.get(name) ?? this.defaults.get(name)])), remembered);
  }

  pairs(names) {
    return names.filter((name) => this.texts.get(name) !== this.defaults.get(name)).map((name) => [name, this.texts.get(name)]);
  }

  // The query for these parameters; defaults are left out.
  query(names) { return new URLSearchParams(this.pairs(names)).toString(); }
}
