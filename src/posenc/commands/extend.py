"""`posenc extend`: how a rotary model behaves past its trained length under every scaling method."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.screen import screen


def extend(
    path: Annotated[
        Path, typer.Argument(help="A study of posenc compare, a Hugging Face folder, or a .gguf file.")
    ],
    to: Annotated[
        str, typer.Option(help="Target length: tokens, or 4x for four times the length the model was released for.")
    ] = "",
    replace_scaling: Annotated[
        bool, typer.Option("--replace-scaling", help="Replace the scaling in the model's config.")
    ] = False,
    text: Annotated[Path | None, typer.Option(help="A file to read instead of the default text.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Scaling methods, separated by commas; yarn(2) sets YaRN's factor to 2.")
    ] = None,
    documents: Annotated[int, typer.Option(help="Documents to score; fewer if the text is short.")] = 8,
    finetune: Annotated[
        int | None,
        typer.Option(help="Also fine-tune with each method for this many steps; default 60 for a study, else 0."),
    ] = None,
    positions: Annotated[
        str, typer.Option(help="Positions in the windows of --finetune: counted, or pose (drawn up to --to).")
    ] = "counted",
    longppl: Annotated[
        str | None,
        typer.Option(
            help="Also compute LongPPL, at the cost of nine texts; pass self, or a model that picks the key tokens."
        ),
    ] = None,
    beta_fast: Annotated[
        float, typer.Option(help="For YaRN: rotations above which a pair keeps its frequency.")
    ] = 32.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    launcher: Annotated[str, typer.Option(help="in-process, local (one per core), or ray.")] = "in-process",
    output: Annotated[Path | None, typer.Option(help="Folder for the scores and the page.")] = None,
) -> None:
    """Score long documents unchanged, truncated, and with every scaling, and recommend what to do."""
    from posenc import workbench

    console = screen(soft_wrap=True)
    extended = workbench.extend(
        path,
        to,
        replace_scaling=replace_scaling,
        text=text,
        methods=None if methods is None else [name.strip() for name in methods.split(",")],
        documents=documents,
        finetune=finetune,
        positions=positions,
        longppl=longppl,
        beta_fast=beta_fast,
        device=device,
        dtype=dtype,
        launcher=launcher,
        output=output,
        console=console,
        command=shlex.join(["posenc", *sys.argv[1:]]),
    )
    console.print(extended)
