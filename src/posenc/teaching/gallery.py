"""The page of `posenc show all`: every figure with what it says, how to draw it, and how to get its numbers."""

from collections.abc import Iterable
from pathlib import Path

from posenc.teaching.views.catalogue import VIEWS
from posenc.workbench.report.page import MAKES, Picture, linked, render


def gallery(names: Iterable[str], folder: Path, lesson: str) -> Path:
    """Write the figures of these names beside ``folder/index.html``; ``lesson`` is a file that is there already."""
    views = {name: VIEWS[name]() for name in names}
    html = render(
        "figures.html",
        command="posenc show all",
        kind="posenc show all",
        answer="Every figure",
        lead="Every figure answers the question in its title; posenc show lists its settings.",
        pictures=[linked(view, name, folder) for name, view in views.items()],
        python={name: view.python for name, view in views.items()},
        lesson=Picture(dict.fromkeys(MAKES, lesson), "Three panels"),
    )
    page = folder / "index.html"
    page.write_text(html, encoding="utf-8")
    return page
