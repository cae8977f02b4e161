"""`posenc vectors`: writes reference numbers for a model's positional encoding, to test a port against."""

from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.positions import positions_of
from posenc.commands.screen import screen


def vectors(
    config: Annotated[Path, typer.Argument(help="A config.json, or the folder of a Hugging Face model.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write: .json or .safetensors.")
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option(
            help="The folder for inputs, exact outputs, and a test that does not need posenc; an older kit there "
            "is overwritten."
        ),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            help="A scaling that replaces the config's: 'yarn(4, 8192)', or 'yarn(4)' for the trained length."
        ),
    ] = None,
    positions: Annotated[
        str | None,
        typer.Option(help="Positions such as 0,1,4095; by default 0,1,2,L-1,L,4L-1 for the trained length L."),
    ] = None,
    phases: Annotated[
        str, typer.Option(help="How to compute angles: exact, or float32 as in transformers.")
    ] = "exact",
    total_length: Annotated[
        int | None, typer.Option(help="Total length of prompt and answer, for a scaling that depends on it.", min=1)
    ] = None,
    base: Annotated[float | None, typer.Option(help="The rotary base, if the config lacks it.")] = None,
    as_type: Annotated[
        str | None,
        typer.Option(help="The model family to assume if the model_type is defined by code on the Hub."),
    ] = None,
) -> None:
    """Write reference vectors of a model's rotation: `posenc vectors model/config.json -o rope.json`."""
    from posenc.errors import InvalidArgument
    from posenc.integrations.huggingface import read
    from posenc.integrations.kit import kit as write
    from posenc.integrations.vectors import vectors as make

    if output is None and kit is None:
        raise InvalidArgument("nothing to write; pass --output FILE for numbers, or --kit FOLDER for a test")
    model = read(config, base=base, as_type=as_type)
    if scaling is not None:
        model = model.with_scaling(scaling)
    if kit is not None:
        folder = write(model, kit, total_length=total_length)
        screen(soft_wrap=True).print(f"wrote {folder}; test with PORT=my_kernel:rotate python -m pytest {folder}")
    if output is None:
        return
    result = make(model, positions_of(positions), phases=phases, total_length=total_length)  # type: ignore[arg-type]
    screen(soft_wrap=True).print(
        f"wrote {result.save(output)}: {len(result.arrays)} arrays, {', '.join(result.header['layers'])}"
    )
