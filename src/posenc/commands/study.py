"""`posenc study`: exports the models of a study."""

from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.screen import screen

study = typer.Typer(help="Export trained models from a study.")


@study.command()
def export(
    output: Annotated[
        Path, typer.Argument(help="New folder for the model, which transformers' from_pretrained can load.")
    ],
    folder: Annotated[Path, typer.Argument(help="Folder of the study.")] = Path("study"),
    encoding: Annotated[
        str, typer.Option(help="Encoding of the run, which must be rotary without scaling.")
    ] = "rotary",
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
) -> None:
    """Save a model of the study's 'language' task as a Hugging Face folder, which posenc extend can read."""
    from posenc.workbench.study.export import export

    screen().print(f"written to {export(folder, output, encoding, seed)}/", soft_wrap=True)
