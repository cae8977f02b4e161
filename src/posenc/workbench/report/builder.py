"""The one builder of pages: a page that holds all it shows, for either paper, a phone and A4."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from posenc.pictures.colours import stylesheet
from posenc.pictures.papers import both_papers
from posenc.pictures.templates import templates
from posenc.pictures.view import View
from posenc.workbench.report.blocks import Block, Code, Page, Picture
from posenc.workbench.run.machine import versions

HERE = "posenc.workbench.report"
MAKES = "light", "dark", "light-narrow", "dark-narrow"
"""Every figure exists for both papers, wide and for a phone."""


def build(page: Page) -> str:
    """The page as HTML."""
    made = templates(HERE)
    blocks: Any = made.get_template("blocks.html").make_module({"link": _link})

    def drawn(block: Block) -> str:
        macro: str = getattr(blocks, type(block).__name__.lower())(block)
        return macro

    css = stylesheet() + _source("page.css")
    told = {"made": page.made or made_with(versions()), "date": datetime.now(UTC).date()}
    return made.get_template("page.html").render(page=page, style=css, draw=drawn, **told)


def embedded(view: View, caption: str, name: str = "", folder: Path | None = None) -> Picture:
    """A view's figure inside the page; with a ``folder`` the one for light paper also in files there."""
    svgs = _svgs(view, folder and folder / f"{name}.png")
    if folder:
        (folder / f"{name}.svg").write_bytes(svgs["light"])
    sources = {make: _data("image/svg+xml", svg) for make, svg in svgs.items()}
    return Picture(sources, _alt(view), caption, name)


def beside(view: View, caption: str, folder: Path, name: str) -> Picture:
    """A view's figure in files beside the page: ``name.svg``, ``name-dark.svg`` and the narrow ones."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = {}
    for make, svg in _svgs(view).items():
        ending = make.removeprefix("light").removeprefix("-")
        sources[make] = f"{name}-{ending}.svg" if ending else f"{name}.svg"
        (folder / sources[make]).write_bytes(svg)
    return Picture(sources, _alt(view), caption, name)


def made_with(said: str) -> str:
    """Versions as words, from the JSON that a run keeps."""
    kept: dict[str, str] = json.loads(said)
    return ", ".join(f"{'Python' if name == 'python' else name} {version}" for name, version in kept.items())


def _svgs(view: View, png: Path | None = None) -> dict[str, bytes]:
    return dict(zip(MAKES, (*both_papers(view, png=png), *both_papers(view, narrow=True)), strict=True))


def _alt(view: View) -> str:
    return f"{view.title}. The numbers are in the text beside it."


def _data(media: str, content: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


def _link(block: Code) -> str:
    return _data("text/plain;charset=utf-8", block.text.encode())


def _source(name: str) -> str:
    return templates(HERE).get_template(name).render()
