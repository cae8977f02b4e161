"""`posenc show`: one figure, or a page with all of them."""

from html import escape
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.palette import HAIRLINE, INK, PAPER
from posenc.workbench.views.catalogue import VIEWS, make

LESSON, LESSON_FILE = "lesson", "positional_encoding_viz.png"
"""The three-panel figure; it is drawn from three views, and has no settings."""

PAGE = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>posenc: every figure</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ background: {PAPER}; color: {INK}; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
figure {{ margin: 0 0 3rem; border-top: 1px solid {HAIRLINE}; padding-top: 1rem }}
img {{ max-width: 100%; height: auto }}
pre {{ overflow-x: auto; font-size: 14px }}
</style>
<h1>Every figure</h1>
"""


def show(
    name: Annotated[str, typer.Argument(help="A figure's name, lesson, or all. Left out: list the names.")] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="name=value of the figure's settings; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File (svg, png, pdf) or, for all, a folder.")
    ] = None,
) -> None:
    """Draw a figure: `posenc show heatmap --set width=32 -o heatmap.svg`."""
    console = Console()
    if not name:
        for known, view in VIEWS.items():
            console.print(f"{known:12} {(view.__doc__ or '').splitlines()[0]}", highlight=False)
        console.print(f"{LESSON:12} The three-panel figure of the lesson.\n{'all':12} A page with every figure.")
        return
    chosen = dict(_split(s) for s in settings or [])
    if name == "all":
        path = gallery(output or Path("figures"))
    elif name == LESSON:
        path = _lesson(output)
    elif name in VIEWS:
        path = _one(name, chosen, output or Path(f"{name}.svg"))
    else:
        raise UnknownName("figure", name, [*VIEWS, LESSON, "all"])
    console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def gallery(folder: Path) -> Path:
    """Write every figure as SVG into ``folder`` with a page that shows them; returns the page."""
    parts = [PAGE]
    for name in track(VIEWS, description="Drawing", transient=True):
        _one(name, {}, folder / f"{name}.svg")
        view = VIEWS[name]()
        parts.append(_entry(name, f"{name}.svg", view.title, view.python))
    _lesson(folder / LESSON_FILE)
    parts.append(_entry(LESSON, LESSON_FILE, "Heatmap, similarity and waves", ""))
    page = folder / "index.html"
    page.write_text("".join(parts), encoding="utf-8")
    return page


def _entry(name: str, source: str, title: str, python: str) -> str:
    """One figure of the page with what it says, how to draw it, and how to get its numbers."""
    code = f"<pre>{escape(python)}</pre>" if python else ""
    caption = f"<figcaption>{escape(title)}. <code>posenc show {name}</code>{code}</figcaption>"
    return f'<figure id="{name}"><img src="{source}" alt="{escape(title)}">{caption}</figure>\n'


def _one(name: str, settings: dict[str, str], path: Path) -> Path:
    from posenc.workbench.figures.draw import save

    return save(make(name, settings), path)


def _lesson(output: Path | None) -> Path:
    from posenc.workbench.figures.ink import write
    from posenc.workbench.figures.lesson import three_panels

    return write(three_panels(), output or Path(LESSON_FILE))


def _split(setting: str) -> tuple[str, str]:
    """``"width=32"`` as its two halves."""
    name, equals, value = setting.partition("=")
    if not equals:
        raise InvalidArgument(f"--set {setting!r} has no '='; type: --set name=value")
    return name, value
