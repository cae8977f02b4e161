"""The page of `posenc show all`: every figure with what it says, how to draw it, and how to get its numbers."""

from collections.abc import Iterable
from pathlib import Path

from posenc.teaching.views.catalogue import VIEWS
from posenc.workbench.report.blocks import Code, Page, Part, Picture
from posenc.workbench.report.builder import MAKES, beside, build


def gallery(names: Iterable[str], folder: Path, lesson: str) -> Path:
    """Write the figures of these names beside ``folder/index.html``; ``lesson`` is a file that is there already."""
    parts = []
    for name in names:
        view = VIEWS[name]()
        picture = beside(view, "", folder, name)
        how = Code(f"posenc show {name} -o {name}.svg"), Code(view.python, "the same numbers in Python")
        parts.append(Part(name, name, (picture, *how)))
    three = Picture(dict.fromkeys(MAKES, lesson), "Three panels")
    parts.append(Part("lesson", "lesson", (three, Code("posenc show lesson"))))
    page = folder / "index.html"
    content = Page(
        "posenc show all",
        "Every figure",
        "Each answers one question, which is its title; its settings are listed by posenc show.",
        tuple(parts),
        "posenc show all",
    )
    page.write_text(build(content), encoding="utf-8")
    return page
