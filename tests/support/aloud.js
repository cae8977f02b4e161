// What hinders reading a page: text too faint, over text, under a curve, beyond the window or cut off by its frame.
() => {
  const visible = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  // The boxes that may cut an element off, and the one that it floats in over the rest of the page.
  const placed = new Map([[document.body, { frames: [], floats: null }]]);
  const place = (e) => {
    if (!placed.has(e)) {
      const { overflowX, textOverflow, position } = getComputedStyle(e);
      const { frames, floats } = place(e.parentElement);
      const own = { box: e.getBoundingClientRect(), hides: overflowX === "hidden" && textOverflow !== "ellipsis" };
      placed.set(e, { frames: overflowX === "visible" ? frames : [own, ...frames], floats: ["sticky", "fixed"].includes(position) ? e : floats });
    }
    return placed.get(e);
  };

  // Every line of text with its box, as far as its frames show it; a formula is one box.
  const lines = [];
  const take = (e, words, box) => {
    let { left, right, top, bottom } = box;
    let cut = false;
    for (const { box: edge, hides } of place(e).frames) {
      cut ||= hides && (left < edge.left - 2 || right > edge.right + 2);
      [left, right, top, bottom] = [Math.max(left, edge.left), Math.min(right, edge.right), Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    // What lies wholly to the left waits there, as a closed drawer does.
    if (right > 0 && right - left > 1 && bottom - top > 1) lines.push({ e, words, left, right, top, bottom, cut, floats: place(e).floats });
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const words = walk.currentNode.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
    const e = walk.currentNode.parentElement;
    if (!words || !visible(e) || e.closest("math, noscript, script, style, option, .skip, .md-skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    for (const box of range.getClientRects()) take(e, words, box);
  }
  for (const e of document.querySelectorAll("math")) if (visible(e)) take(e, "formula", e.getBoundingClientRect());

  const found = [];
  for (const line of lines) {
    if (line.right > innerWidth + 1 || line.left < -1) found.push(`beyond the window: ${line.words}`);
    if (line.cut) found.push(`cut off: ${line.words}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} px wide`);

  lines.sort((a, b) => a.top - b.top);
  lines.forEach((a, i) => {
    for (let j = i + 1; j < lines.length && lines[j].top < a.bottom - 4; j += 1) {
      const b = lines[j];
      if (a.floats !== b.floats || a.e.contains(b.e) || b.e.contains(a.e)) continue;
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) <= 2 || Math.min(a.bottom, b.bottom) - b.top <= 4) continue;
      found.push(`over each other: ${a.words} | ${b.words}`);
    }
  });

  // A curve through a name of its own chart, sampled every two pixels; a name's outermost pixels are air.
  for (const chart of document.querySelectorAll("svg:has(.curve)")) {
    if (!visible(chart)) continue;
    const names = [...chart.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
    for (const curve of chart.querySelectorAll("path.curve")) {
      const to = curve.getScreenCTM();
      for (let at = 0; at < curve.getTotalLength(); at += 2) {
        const { x, y } = curve.getPointAtLength(at).matrixTransform(to);
        const under = names.find(([, box]) => x > box.left + 2 && x < box.right - 2 && y > box.top + 4 && y < box.bottom - 4);
        if (under) found.push(`struck through: ${under[0]}`);
      }
    }
  }

  const parse = (text) => { const [r, g, b, a = 1] = (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number); return { rgb: [r, g, b], a }; };
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const shine = (rgb) => { const [r, g, b] = rgb.map((v) => linear(v / 255)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const over = (top, below) => top.rgb.map((v, i) => v * top.a + below[i] * (1 - top.a));
  const paper = (e) => {
    if (!e) return [255, 255, 255];
    const own = parse(getComputedStyle(e).backgroundColor);
    return own.a === 1 ? own.rgb : over(own, paper(e.parentElement));
  };
  for (const e of new Set(lines.map((line) => line.e))) {
    const style = getComputedStyle(e);
    const below = paper(e);
    const ink = over(parse(e.closest("svg") ? style.fill : style.color), below);
    const [low, high] = [shine(ink), shine(below)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${e.textContent.trim().slice(0, 40)}`);
  }
  return [...new Set(found)];
}
