"""`posenc doctor`: finds the mistake in a reimplemented encoding from the numbers that it computes."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from posenc.errors import InvalidArgument


def doctor(
    model: Annotated[
        str,
        typer.Argument(
            help="A folder, a config.json, a .gguf file, or an encoding, such as rotary, alibi or sinusoidal."
        ),
    ],
    numbers: Annotated[
        Path | None, typer.Argument(help="A file with the port's named arrays: .npz, .safetensors or .json.")
    ] = None,
    call: Annotated[
        str | None,
        typer.Option(
            help="A function or class of the port to call, instead of a file of numbers: my_port.py:apply_rope."
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            help="The layer type that the numbers belong to; required if several layer types have positions."
        ),
    ] = None,
    as_type: Annotated[
        str | None, typer.Option(help="The model family to assume if the model_type is defined by code on the Hub.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer and the mistakes as JSON.")] = False,
) -> None:
    """Find the mistake in a port (your code for a model) from its numbers: `posenc doctor config.json numbers.npz`.

    The function given by --call runs in a separate process with your permissions. The exit status is 1 if the port
    is wrong.
    """
    from posenc.arguments import one_of
    from posenc.integrations import huggingface
    from posenc.integrations.doctor import KINDS, diagnose, diagnose_call, load
    from posenc.integrations.programs import llama_cpp

    path, _, name = (call or "").rpartition(":")
    if (numbers is None) == (call is None) or (call is not None and not (path and name)):
        raise InvalidArgument(
            "posenc doctor needs the port's numbers; pass either a file of numbers or --call FILE:FUNCTION, such "
            "as my_port.py:apply_rope"
        )
    asked = (
        model
        if model.partition("(")[0].isidentifier()
        and not Path(model).exists()
        and one_of("file, folder or encoding", model.partition("(")[0], KINDS)
        else llama_cpp.positions_of(llama_cpp.fields(Path(model)))
        if model.endswith(".gguf")
        else huggingface.read(model, as_type=as_type)
    )
    answer = (
        diagnose(asked, load(numbers), layer=layer)
        if numbers is not None
        else diagnose_call(asked, Path(path), name, layer=layer)
    )
    typer.echo(json.dumps(asdict(answer), ensure_ascii=False, indent=1) if as_json else answer.text)
    if not answer.right:
        raise typer.Exit(1)
