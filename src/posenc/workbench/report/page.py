"""Renders a template as a page that holds all it shows: for either paper, a phone and A4."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from posenc.pictures.colours import stylesheet
from posenc.pictures.draw import both_papers
from posenc.pictures.numbers import count
from posenc.pictures.templates import templates
from posenc.pictures.view import View
from posenc.workbench.report.words import seconds
from posenc.workbench.run.machine import versions

TEMPLATES = "posenc.workbench.report"
STYLE = Path(__file__).parent / "page.css"
MAKES = "light", "dark", "light-narrow", "dark-narrow"
"""Every figure exists for both papers, wide and for a phone."""


@dataclass(frozen=True)
class Picture:
    """A figure in four makes, ``light``, ``dark``, ``light-narrow`` and ``dark-narrow``: addresses of images."""

    sources: Mapping[str, str]
    alt: str
    name: str = ""


def render(template: str, *, command: str = "", ran: str = "", **context: object) -> str:
    """The page that this template of ``templates/`` makes of a context.

    Args:
        command: as it was typed.
        ran: the versions behind the numbers, as the JSON that a run keeps; by default those that run now.
    """
    environment = templates(TEMPLATES)
    environment.globals |= {"count": count, "seconds": seconds}
    environment.filters |= {"address": _address, "titles": _titles}
    context |= {"style": stylesheet() + STYLE.read_text("utf-8"), "versions": json.loads(ran or versions())}
    context["date"] = datetime.now(UTC).date()
    return environment.get_template(template).render(command=command, **context)


def embedded(view: View, name: str, folder: Path) -> Picture:
    """A view's figure inside the page; the one for light paper also in files in ``folder``."""
    makes = both_papers(view, png=folder / f"{name}.png"), both_papers(view, narrow=True)
    svgs = dict(zip(MAKES, chain.from_iterable(makes), strict=True))
    (folder / f"{name}.svg").write_bytes(svgs["light"])
    alt = f"{view.title}. The numbers are in the text beside it."
    return Picture({make: _data("image/svg+xml", svg) for make, svg in svgs.items()}, alt, name)


def _titles(sections: str) -> list[tuple[str, str]]:
    """Addresses and headings of a page's sections."""
    return re.findall(r'<section id="([^"]*)">\s*<h2>(.*?)</h2>', sections)


def _address(text: str) -> str:
    return _data("text/plain;charset=utf-8", text.encode())


def _data(media: str, content: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode()}"
