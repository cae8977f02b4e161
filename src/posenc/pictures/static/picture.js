// Save a picture without a server: the panels inside an SVG, or that SVG drawn as a PNG.
import { html, svg } from "./paint/elements.js";
import { isDark } from "./paper.js";

export async function savePicture(panels, name, kind) {
  const { width, height } = panels.getBoundingClientRect();
  const copy = panels.cloneNode(true);
  const pictures = panels.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => canvas.replaceWith(html("img", { class: canvas.className, src: pictures[i].toDataURL() })));
  const style = [...document.styleSheets].flatMap(({ cssRules }) => [...cssRules]).map((rule) => rule.cssText).join("\n");
  const page = html("html", {}, html("style", {}, style), html("div", { class: "stage" }, copy));
  const paper = { "data-theme": isDark() ? "dark" : "light" }; // the theme on the page, even if the system's differs
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, ...paper }, svg("foreignObject", { width: "100%", height: "100%" }, page));
  const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  html("a", { download: `${name}.${kind}`, href: kind === "svg" ? address : await drawn(address, 2 * width, 2 * height) }).click();
}

async function drawn(address, width, height) {
  const image = html("img", { src: address });
  await image.decode();
  const canvas = html("canvas", { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  return canvas.toDataURL("image/png");
}
