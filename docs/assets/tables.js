// A table wider than the page scrolls in a box, which the Tab key reaches.
const reach = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) {
    box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
  }
};
globalThis.document$?.subscribe(() => requestAnimationFrame(reach));
addEventListener("resize", reach);
