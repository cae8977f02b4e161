"""Renders a template as a self-contained page with layouts for large screens, for phones and for A4 paper."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from posenc.pictures.assets import STATIC, bundle, style, templates
from posenc.pictures.colours import tones
from posenc.pictures.numbers import count, seconds
from posenc.pictures.tables import tables
from posenc.pictures.view import View
from posenc.pictures.wire import alone
from posenc.workbench.run.machine import versions

STYLE = Path(__file__).parent / "page.css"
SECTION = re.compile(r'<section id="([^"]*)">\s*<h2>(.*?)</h2>')
"""The start of a section of a page, with its anchor and its heading."""


def render(template: str, *, command: str, ran: str, **context: object) -> str:
    """Render a template of ``templates/`` with a context.

    Args:
        command: the command as typed; empty if there is none.
        ran: the software versions that computed the page's results, as the JSON string in ``Run.versions``; empty
            for the current versions.
    """
    page = templates("posenc.workbench.report").get_template(template)
    return page.render(
        count=count,
        seconds=seconds,
        titles=SECTION.findall,
        style=style(STYLE),
        script=bundle(STATIC / "report.js"),
        tones=tones(),
        command=command,
        versions=json.loads(ran or versions()),
        date=datetime.now(UTC).date(),
        **context,
    )


def picture(view: View, name: str) -> dict[str, Any]:
    """Return a view in the form that a page's template expects: its name, its title, the data from which the
    page's script draws it, and tables of the drawn values."""
    return {"name": name, "title": view.title, "scene": alone(view), "tables": tables(view)}
