"""Make contact sheets of the lab: ``python -m tools.contact_sheet FOLDER [ROOM or STAGE]``.

It photographs every stage in two themes and three sizes, writes ``index.html`` and one ``sheet-THEME-SIZE.png`` for
each combination, and prints the layout faults that it detects. Results are read from ``./study``.
"""

import argparse
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from tests.support.photographs import chromium, reveal, serving, settle

from posenc.teaching.lab.rooms import ROOMS

THEMES = ("light", "dark")
SIZES = {"desktop": (1280, 800), "large": (1920, 1080), "phone": (390, 844)}
THUMB = 240
"""The height of a picture on the sheet, in pixels."""

FAULTS = r"""() => {
  const found = [], root = document.scrollingElement;
  if (root.scrollWidth > innerWidth) found.push(`page is ${root.scrollWidth - innerWidth} px too wide`);
  const shown = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 1;
  for (const e of document.querySelectorAll("h1, h2, button, nav a, label, dt, dd, .answer"))
    if (shown(e) && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden")
      found.push(`cut off: ${e.innerText.slice(0, 40)}`);
  for (const e of document.querySelectorAll(".current .controls > .control input[type=number]"))
    if (shown(e) && e.scrollWidth > e.clientWidth) found.push(`cut off: ${e.value} in the field of ${e.id}`);
  const panels = [...document.querySelectorAll(".stage.current .panel")].filter(shown);
  const stage = document.querySelector(".stage.current");
  if (stage && !panels.length) found.push("no picture");
  if (panels.length && panels[0].getBoundingClientRect().top > innerHeight * 0.6)
    found.push("the picture begins below the first screen");
  if (stage?.querySelector(".error")?.checkVisibility()) found.push(stage.querySelector(".error").innerText);
  for (const entry of document.querySelectorAll("nav.stages a"))
    if (/^\d*$/.test(entry.innerText)) found.push(`a stage is named ${entry.innerText || "nothing"}`);
  const numbers = [...document.querySelectorAll(".current .readouts dd:not(.words)")].filter(shown);
  const size = (e) => parseFloat(getComputedStyle(e).fontSize);
  if (numbers.length && numbers.filter((e) => size(e) === Math.max(...numbers.map(size))).length > 1)
    found.push("no number is larger than the others");
  for (const e of numbers) if (e.scrollWidth > e.clientWidth + 1) found.push(`cut off: ${e.innerText}`);
  for (const chart of document.querySelectorAll(".current svg")) {
    const ends = [...chart.querySelectorAll(".leader")].map((e) => Number(e.getAttribute("d").split(/[ L]/)[1]));
    if (ends.sort((a, b) => a - b).some((y, i) => y - ends[i - 1] < 0.5))
      found.push("lines that end at the same place have separate names");
  }
  const boxes = (selector) =>
    [...document.querySelectorAll(selector)].filter(shown).map((e) => e.getBoundingClientRect());
  const middle = (all) => (Math.min(...all.map((b) => b.left)) + Math.max(...all.map((b) => b.right))) / 2;
  const aside = (all, box) => all.length && Math.abs(middle(all) - middle([box])) > 0.12 * box.width;
  if (aside(boxes(".card ol"), root.getBoundingClientRect())) found.push("the card is off-centre");
  const [holder] = boxes(".current .panels");
  const pictures = boxes(".current .panel :is(.field, .grid, svg)");
  if (!holder || !pictures.length) return found;
  if (aside([...pictures, ...boxes(".current ul.key")], holder)) found.push("the picture is off-centre");
  const bottom = Math.max(...pictures.map((b) => b.bottom)), top = Math.min(...pictures.map((b) => b.top));
  const percent = (part, whole) => `${Math.round((100 * part) / whole)} %`;
  if (innerWidth > 500 && bottom - holder.top < 0.4 * holder.height)
    found.push(`the picture fills ${percent(bottom - holder.top, holder.height)} of the panel's height`);
  if (innerWidth > 500) return found;
  const seen = Math.min(bottom, innerHeight) - top;
  if (seen < 0.6 * (bottom - top)) found.push(`${percent(seen, bottom - top)} of the picture is in view`);
  for (const e of [...stage.querySelectorAll(".controls > .control, .tries a")].filter(shown)) {
    e.scrollIntoView({ block: "center", behavior: "instant" });
    const [over, own] = [stage.querySelector(".bench"), e].map((part) => part.getBoundingClientRect());
    if (over.top < -1 || own.top < over.bottom - 1 || own.bottom > innerHeight + 1)
      found.push(`not in view with the picture: ${e.innerText.slice(0, 20)}`);
  }
  scrollTo({ top: 0, behavior: "instant" });
  return found;
}"""
"""The script that finds layout faults of a stage: too wide, cut off, unnamed, off-centre, out of view."""


def stages(only: str = "") -> list[tuple[str, str]]:
    """Return the first page, the cards, and every stage of every room, or only entries with this name."""
    every = [("", ""), ("check", ""), *((room.name, stage.question) for room in ROOMS for stage in room.stages)]
    return [pair for pair in every if not only or only in pair]


def visits(page: Any, address: str, only: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each stage's name and faults after it is drawn and its guess is answered."""
    for room, stage in stages(only):
        page.goto("about:blank")  # without this, only the fragment changes and nothing is loaded
        page.goto(f"{address}/{room}#{stage}")
        settle(page)
        faults = page.evaluate(FAULTS)
        if reveal(page):
            page.wait_for_timeout(350)  # animations have ended
            faults += page.evaluate(FAULTS)
        yield f"{room or 'home'}-{stage or 'page'}", list(dict.fromkeys(faults))


def sheet(names: list[str], theme: str, size: str) -> str:
    """Return a page of thumbnails for one theme and size, each with its name and a link to the full picture."""
    ground, ink = ("#fff", "#222") if theme == "light" else ("#111", "#ddd")
    figures = "".join(
        f'<a href="{name}-{theme}-{size}.png"><img height="{THUMB}" src="{name}-{theme}-{size}.png">'
        f"<br>{escape(name)}</a>"
        for name in names
    )
    style = f"body{{background:{ground};font:12px sans-serif}}a{{display:inline-block;margin:6px;color:{ink}}}"
    return f"<!doctype html><meta charset=utf-8><title>{theme}, {size}</title><style>{style}</style>{figures}"


def make(folder: Path, only: str = "") -> list[str]:
    """Take the pictures, write the sheets, and return the faults, one per line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines, links = [], []
    with serving() as address, chromium() as browser:
        for size, (width, height) in SIZES.items():
            for theme in THEMES:
                page = browser.new_page(color_scheme=theme, viewport={"width": width, "height": height})
                names = []
                for name, faults in visits(page, address, only):
                    page.screenshot(path=str(folder / f"{name}-{theme}-{size}.png"))
                    names.append(name)
                    lines += [f"{name}, {theme}, {size}: {fault}" for fault in faults]
                path = folder / f"sheet-{theme}-{size}.html"
                path.write_text(sheet(names, theme, size), encoding="utf-8")
                page.set_viewport_size({"width": 1600, "height": 1000})
                page.goto(path.resolve().as_uri())
                page.screenshot(path=str(path.with_suffix(".png")), full_page=True)
                links.append(f'<li><a href="{path.name}">{theme}, {size}: {width} × {height}</a>')
                page.close()
    index = f"<!doctype html><meta charset=utf-8><title>Contact sheets</title><ul>{''.join(links)}</ul>"
    (folder / "index.html").write_text(index, encoding="utf-8")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("only", nargs="?", default="", help="a room or a stage")
    given = parser.parse_args()
    faults = make(given.folder, given.only)
    print(*faults, f"{given.folder / 'index.html'}: {len(faults)} faults", sep="\n")
    sys.exit(bool(faults))
