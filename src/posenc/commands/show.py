"""`posenc show`: one figure, or a page with all of them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from posenc.commands.screen import screen
from posenc.errors import InvalidArgument, UnknownName

LESSON, LESSON_FILE = "lesson", "positional_encoding_viz.png"
"""The three-panel figure, which is drawn from three views."""

_UNSET = {
    "": "name a figure, as in posenc show heatmap --set width=32",
    "all": "all draws every figure with its defaults; name one figure to set something",
}
"""Why nothing can be set where no one figure is named, and what to do."""


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
    from posenc.teaching.views.catalogue import VIEWS

    console, chosen = screen(soft_wrap=True), _chosen(settings or [])
    if name in _UNSET and chosen:
        raise InvalidArgument(f"--set {settings[0]!r} does not apply: {_UNSET[name]}")  # type: ignore[index]
    if not name:
        if output is not None:
            raise InvalidArgument(f"--output '{output}' does not apply: the list of names is printed, not written")
        for known, view in VIEWS.items():
            console.print(f"{known:12} {(view.__doc__ or '').splitlines()[0]}")
        console.print(f"{LESSON:12} The three-panel figure of the lesson.\n{'all':12} A page with every figure.")
    elif name == "all":
        console.print(f"wrote {gallery(output or Path('figures'))}")
    elif name == LESSON:
        console.print(f"wrote {_lesson(output, chosen)}")
    elif name in VIEWS:
        console.print(f"wrote {_one(name, chosen, output or Path(f'{name}.svg'))}")
    else:
        raise UnknownName("figure", name, [*VIEWS, LESSON, "all"])


def gallery(folder: Path) -> Path:
    """Write every figure as SVG into ``folder`` with a page that shows them; returns the page."""
    from posenc.teaching.gallery import gallery as written
    from posenc.teaching.views.catalogue import VIEWS

    names = track(VIEWS, description="Drawing", console=screen(), transient=True)
    return written(names, folder, _lesson(folder / LESSON_FILE, {}).name)


def _one(name: str, settings: dict[str, str], path: Path) -> Path:
    from posenc.pictures.draw import save
    from posenc.teaching.views.catalogue import make

    return save(make(name, settings), path)


def _lesson(output: Path | None, settings: dict[str, str]) -> Path:
    from posenc.pictures.mpl import write
    from posenc.teaching.three_panels import three_panels
    from posenc.teaching.views.catalogue import arguments

    return write(three_panels(**arguments(LESSON, three_panels, settings)), output or Path(LESSON_FILE))


def _chosen(settings: list[str]) -> dict[str, str]:
    """``["width=32"]`` by name; each once."""
    chosen: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidArgument(f"--set {setting!r} has no '='; type: --set name=value")
        if name in chosen:
            raise InvalidArgument(f"--set {setting!r} is the second value of {name}; give it once")
        chosen[name] = value
    return chosen
