"""`posenc show`: draws a figure."""

from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.screen import screen
from posenc.errors import InvalidArgument

LESSON, LESSON_FILE = "lesson", "positional_encoding_viz.png"
"""The name and the default file of the figure with three panels."""


def show(
    name: Annotated[str, typer.Argument(help="The name of a figure; omit the name to list all figures.")] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the figure in the form name=value; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write: svg, png or pdf.")
    ] = None,
) -> None:
    """Draw a figure: `posenc show heatmap --set width=32 -o heatmap.svg`."""
    from posenc.teaching.views.catalogue import VIEWS, make

    console, chosen = screen(soft_wrap=True), _chosen(settings or [])
    if not name:
        given = [f"--set {setting!r}" for setting in settings or ()] + [f"--output '{output}'"] * bool(output)
        if given:
            raise InvalidArgument(
                f"{given[0]} is given without the name of a figure; add the figure's name, as in: posenc show "
                "heatmap --set width=32 --output heatmap.svg"
            )
        for known, view in VIEWS.items():
            console.print(f"{known:12} " + " ".join((view.__doc__ or "").partition("\n\n")[0].split()))
        console.print(f"{LESSON:12} The three-panel figure of the lesson.")
        return
    from posenc.arguments import one_of
    from posenc.pictures.draw import draw, write
    from posenc.teaching.three_panels import three_panels
    from posenc.teaching.views.bounds import arguments

    one_of("figure", name, [*VIEWS, LESSON])
    if name == LESSON:
        figure, file = three_panels(**arguments(LESSON, three_panels, chosen)), LESSON_FILE
    else:
        figure, file = draw(make(name, chosen)), f"{name}.svg"
    console.print(f"wrote {write(figure, output or Path(file))}")


def _chosen(settings: list[str]) -> dict[str, str]:
    """Parse settings such as ``["width=32"]`` into a dict; each name may occur only once."""
    chosen: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidArgument(f"--set {setting!r} has no '='; write it as --set name=value")
        if name in chosen:
            raise InvalidArgument(f"--set {setting!r} sets {name} a second time; pass {name} only once")
        chosen[name] = value
    return chosen
