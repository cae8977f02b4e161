"""`posenc extend`: tests a rotary model past its trained length with every scaling method."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.screen import screen


def extend(
    path: Annotated[Path, typer.Argument(help="Folder of a study or of a Hugging Face model, or a .gguf file.")],
    to: Annotated[
        str,
        typer.Option(
            help="Target length in tokens, or 4x for 4 times the trained length, rounded down to a multiple of a "
            "quarter of the trained length; default 8x for a study, else 2x."
        ),
    ] = "",
    replace_scaling: Annotated[
        bool, typer.Option("--replace-scaling", help="Replace the scaling that the model's config already has.")
    ] = False,
    text: Annotated[
        Path | None,
        typer.Option(help="A file to read instead of the default text; for a study, it must be the study's text."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Scaling methods, separated by commas; yarn(2) sets YaRN's factor to 2.")
    ] = None,
    documents: Annotated[int, typer.Option(help="Largest number of documents to score.")] = 8,
    finetune: Annotated[
        int | None, typer.Option(help="Fine-tuning steps for each method; by default 60 for a study, else 0.")
    ] = None,
    positions: Annotated[
        str,
        typer.Option(help="Positions in fine-tuning: counted (0, 1, 2, …), or pose (PoSE: drawn from 0 to --to)."),
    ] = "counted",
    seed: Annotated[
        int, typer.Option(help="Seed of a fine-tune's windows and drawn positions.", min=0, max=2**63 - 1)
    ] = 0,
    longppl: Annotated[
        str | None, typer.Option(help="Also compute LongPPL; pass the model that picks key tokens, or self.")
    ] = None,
    beta_fast: Annotated[
        float,
        typer.Option(
            help="YaRN does not scale pairs that complete more turns than this within the trained length."
        ),
    ] = 32.0,
    device: Annotated[str, typer.Option(help="Device of the model: cpu, cuda, …")] = "cpu",
    dtype: Annotated[str, typer.Option(help="Dtype of a pretrained model: float32 or bfloat16.")] = "float32",
    launcher: Annotated[
        str, typer.Option(help="Where to run: in-process, local (one process per core), or ray.")
    ] = "in-process",
    output: Annotated[Path | None, typer.Option(help="Folder for the scores and the HTML report.")] = None,
) -> None:
    """On long documents, compare scaling methods with the unchanged model and with truncation; recommend one."""
    from posenc.workbench.extended import extend

    console = screen(soft_wrap=True)
    extended = extend(
        path,
        to,
        replace_scaling=replace_scaling,
        text=text,
        methods=None if methods is None else [name.strip() for name in methods.split(",")],
        documents=documents,
        finetune=finetune,
        positions=positions,
        seed=seed,
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
