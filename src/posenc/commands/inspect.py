"""`posenc inspect`: what a model's config does with positions, in plain words."""

from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.screen import screen
from posenc.errors import InvalidArgument


def inspect(
    path: Annotated[Path, typer.Argument(help="A config.json, or the folder of a Hugging Face model.")],
    base: Annotated[
        float | None, typer.Option(help="The rotary base, where the config leaves it out and you know it.")
    ] = None,
    as_type: Annotated[
        str | None,
        typer.Option(help="The family by whose rules to read it, where model_type is that of code on the Hub."),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(help="Build a small random model of the config, and compare what it does with what was read."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also draw the frequencies, to this file (svg, png, pdf).")
    ] = None,
) -> None:
    """Say what a config does with positions, and what can go wrong: `posenc inspect model/config.json`."""
    from posenc.teaching.inspect import inspect as look
    from posenc.teaching.inspect import measured

    console = screen(soft_wrap=True)
    if measure:
        if output is not None:
            raise InvalidArgument(f"--output '{output}' does not apply to --measure; leave one of them out")
        console.print(measured(path, base=base, as_type=as_type))
        return
    inspection = look(path, base=base, as_type=as_type)
    if output is not None and inspection.view is None:
        raise InvalidArgument(f"--output '{output}' does not apply: the model has no frequencies to draw")
    console.print(inspection.text())
    if output is None or inspection.view is None:
        return
    from posenc.pictures.draw import save

    console.print(f"wrote {save(inspection.view, output)}")
