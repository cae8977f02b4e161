"""Renders a template as a page that holds all it shows: for either paper, a phone and A4."""

import base64
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from posenc.pictures.assets import STATIC, bundle, style
from posenc.pictures.colours import tables as tones
from posenc.pictures.numbers import count
from posenc.pictures.tables import tables
from posenc.pictures.templates import templates
from posenc.pictures.view import View
from posenc.pictures.wire import alone
from posenc.workbench.report.words import seconds
from posenc.workbench.run.machine import versions

TEMPLATES = "posenc.workbench.report"
STYLE = Path(__file__).parent / "page.css"
MAKES = "light", "dark", "light-narrow", "dark-narrow"
"""Every figure exists for both papers, wide and for a phone."""


def render(template: str, *, command: str = "", ran: str = "", **context: object) -> str:
    """The page that this template of ``templates/`` makes of a context.

    Args:
        command: as it was typed.
        ran: the versions behind the numbers, as the JSON that a run keeps; by default those that run now.
    """
    environment = templates(TEMPLATES)
    environment.globals |= {"count": count, "seconds": seconds}
    environment.filters |= {"address": _address, "titles": _titles}
    context |= {"style": style(STYLE), "script": bundle(STATIC / "report.js"), "tones": tones()}
    context |= {"versions": json.loads(ran or versions()), "date": datetime.now(UTC).date()}
    return environment.get_template(template).render(command=command, **context)


def embedded(view: View, name: str, folder: Path) -> dict[str, Any]:
    """A view's figure inside the page: ``sources`` are the addresses of its four makes.

    The one for light paper comes in files in ``folder``, too.
    """
    makes = both_papers(view, png=folder / f"{name}.png"), both_papers(view, narrow=True)
    svgs = dict(zip(MAKES, chain.from_iterable(makes), strict=True))
    (folder / f"{name}.svg").write_bytes(svgs["light"])
    alt = f"{view.title}. The numbers are in the text beside it."
    sources = {make: _data("image/svg+xml", svg) for make, svg in svgs.items()}
    return {"sources": sources, "alt": alt, "name": name}


def _titles(sections: str) -> list[tuple[str, str]]:
    """Addresses and headings of a page's sections."""
    return re.findall(r'<section id="([^"]*)">\s*<h2>(.*?)</h2>', sections)


def _address(text: str) -> str:
    return _data("text/plain;charset=utf-8", text.encode())


def _data(media: str, content: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode()}"
