// A box above every table in .filter: rows that lack one of its words are hidden. The words stand in the address as ?rows=.
for (const place of document.querySelectorAll(".filter")) {
  const rows = [...place.querySelectorAll("tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const box = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter rows" });
  const count = document.createElement("output");
  box.setAttribute("aria-label", "Filter rows");
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/);
    rows.forEach((row, i) => (row.hidden = !words.every((word) => texts[i].includes(word))));
    count.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  box.addEventListener("input", () => {
    history.replaceState(null, "", box.value ? `?rows=${encodeURIComponent(box.value)}` : location.pathname);
    apply();
  });
  box.value = new URLSearchParams(location.search).get("rows") ?? "";
  place.prepend(box, count);
  apply();
}
