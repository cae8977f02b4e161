"""`posenc study`: a study that outlives its machine, sent to an address and brought from there."""

from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.screen import screen

study = typer.Typer(help="Send a study to an address, or bring it from there; neither removes anything.")

Address = Annotated[str, typer.Argument(help="Where fsspec writes, such as s3://bucket/study (needs s3fs).")]
Folder = Annotated[Path, typer.Argument(help="Folder of the study.")]


@study.command()
def push(address: Address, folder: Folder = Path("study")) -> None:
    """Send what the address lacks: ledger, weights, states of runs under way, page. Runs may go on meanwhile."""
    from posenc.workbench.study.storage import RemoteStudy

    sent = RemoteStudy(address).push(folder)
    screen().print(f"{sent} file{'s' * (sent != 1)} sent to {address}", soft_wrap=True)


@study.command()
def pull(address: Address, folder: Folder = Path("study")) -> None:
    """Bring what the folder lacks; posenc compare --output FOLDER goes on from there."""
    from posenc.workbench.study.storage import RemoteStudy

    runs = RemoteStudy(address).pull(folder)
    screen().print(f"{runs} run{'s' * (runs != 1)} brought to {folder}/", soft_wrap=True)


@study.command()
def export(
    output: Annotated[Path, typer.Argument(help="New folder for transformers' from_pretrained.")],
    folder: Folder = Path("study"),
    encoding: Annotated[str, typer.Option(help="Of the run on language; rotary, without scaling.")] = "rotary",
    seed: Annotated[int, typer.Option(help="Of the run.")] = 0,
) -> None:
    """Write a trained language model as a Hugging Face folder; posenc extend reads it."""
    from posenc.workbench.study.export import export

    screen().print(f"written to {export(folder, output, encoding, seed)}/", soft_wrap=True)
