// A picture of a stage as a page can make it alone: the panels inside an SVG, or that SVG drawn as PNG.
import { html } from "./paint/elements.js";

export async function savePicture(stage, kind) {
  const panels = stage.find(".panels");
  const { width, height } = panels.getBoundingClientRect();
  const copy = panels.cloneNode(true);
  const pictures = panels.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    const image = html("img", canvas.className);
    image.setAttribute("src", pictures[i].toDataURL());
    canvas.replaceWith(image);
  });
  const body = html("div", "stage");
  body.append(copy);
  const root = document.documentElement;
  const style = [...document.querySelectorAll("style")].map((each) => each.textContent).join("\n");
  const markup = new XMLSerializer().serializeToString(body);
  const open = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`;
  const inside = `<foreignObject width="100%" height="100%"><html xmlns="http://www.w3.org/1999/xhtml" data-theme="${root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")}"><head><style>${style.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</style></head><body>${markup}</body></html></foreignObject>`;
  const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(`${open}${inside}</svg>`)}`;
  const link = html("a");
  link.download = `posenc-${stage.question}.${kind}`;
  link.href = kind === "svg" ? address : await drawn(address, 2 * width, 2 * height);
  link.click();
}

async function drawn(address, width, height) {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = html("canvas");
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  return canvas.toDataURL("image/png");
}
