"""`posenc extend`: how a rotary model behaves past its trained length under every scaling method."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from posenc.errors import InvalidArgument
from posenc.workbench.screen import screen

if TYPE_CHECKING:  # imported when the command runs
    from posenc.workbench.experiments.extend import Extension
    from posenc.workbench.experiments.retrieval import Retrieval


def extend(
    path: Annotated[
        Path, typer.Argument(help="A study of posenc compare, a Hugging Face folder, or a .gguf file.")
    ],
    to: Annotated[
        str, typer.Option(help="Length to reach: tokens, or a multiple of the trained length such as 4x.")
    ] = "",
    text: Annotated[Path | None, typer.Option(help="A file to read instead of the Python topics.")] = None,
    methods: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    documents: Annotated[int, typer.Option(help="Documents to score, fewer where the text ends.")] = 8,
    finetune: Annotated[
        int | None, typer.Option(help="Also after this many steps under each method; 60 for a study, else 0.")
    ] = None,
    needle: Annotated[
        bool,
        typer.Option(
            "--needle",
            help="Also ask for numbers hidden in the text, by length and depth; pretrained models only, slow.",
        ),
    ] = False,
    beta_fast: Annotated[float, typer.Option(help="YaRN: turns above which a pair keeps its frequency.")] = 32.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    launcher: Annotated[
        str, typer.Option(help="here (in this process), local (a process a core, each with the model), or ray.")
    ] = "here",
    output: Annotated[Path | None, typer.Option(help="Folder for scores, figures and page.")] = None,
) -> None:
    """Score long documents under every way of scaling the frequencies, and say which one to use."""
    import torch

    from posenc.workbench.experiments.extend import Request, work
    from posenc.workbench.experiments.extend import extend as carry_out
    from posenc.workbench.experiments.ledger import Ledger
    from posenc.workbench.experiments.methods import methods as named
    from posenc.workbench.experiments.models import Ours, config_patch, open_model
    from posenc.workbench.experiments.retrieval import reader, retrieve
    from posenc.workbench.experiments.retrieval import work as asking
    from posenc.workbench.experiments.verdict import judge
    from posenc.workbench.launch.choose import choose
    from posenc.workbench.report import terminal
    from posenc.workbench.report.extension_page import write

    console = screen(soft_wrap=True)
    if dtype not in ("float32", "bfloat16"):
        raise InvalidArgument(f"dtype={dtype!r} must be float32 or bfloat16")
    if documents < 1:
        raise InvalidArgument(f"documents={documents} must be at least 1")
    launch = choose(launcher)
    model, data, read = open_model(path, text, device, dtype)
    asked = reader(model) if needle else None
    ours = isinstance(model, Ours)
    if ours:
        torch.set_num_threads(1)  # models of this size wait for threads longer than they compute
    length = _length(to or ("8x" if ours else "2x"), model.original_length)
    names = None if methods is None else tuple(name.strip() for name in methods.split(","))
    factor = length / model.original_length
    chosen = named(names, model.schedule, model.original_length, max(1.0, factor), beta_fast)
    steps = (60 if ours else 0) if finetune is None else finetune
    request = Request(length, documents, chosen, steps, dtype, device)
    folder = output or (path / "extension" if path.is_dir() else Path("extension"))
    console.print(f"{model.name}, trained to {model.original_length}, on to {length}; writing to {folder}/")
    total = work(model, request, documents) + (asking(model.original_length, request) if needle else 0)
    with (
        Ledger(folder, write=True) as ledger,
        terminal.bar(console, "scoring", total, f"{model.unit}s") as progress,
    ):

        def advance(tokens: float) -> None:
            progress.advance(progress.task_ids[0], tokens)

        found = carry_out(model, data, read, request, ledger, launch, advance)
        same = replace(request, length=found.length)
        needles = retrieve(asked, data, read, same, ledger, launch, advance) if asked else None
        seconds = ledger.seconds()
    verdict = judge(found)
    patch = config_patch(model, verdict.chosen.curve.method, found.length)
    page = write(found, folder, shlex.join(["posenc", *sys.argv[1:]]), seconds, patch, needles)
    _print(console, found, needles)
    if patch:
        (folder / "config-patch.json").write_text(json.dumps(patch, indent=2) + "\n", encoding="utf-8")
        console.print(f"config  {folder / 'config-patch.json'}")
    console.print(f"page    {page}")


def _print(console: Console, found: "Extension", needles: "Retrieval | None") -> None:
    """A table and an answer for the curves as they are, tuned where they were, and for the needles."""
    from posenc.workbench.experiments.verdict import judge
    from posenc.workbench.report import extension, retrieval

    for tuned in sorted({curve.tuned for curve in found.curves}):
        judged = judge(found, tuned=tuned)
        console.print(extension.table(found, judged))
        console.print(f"\n{extension.answer(found, judged)}\n", style="bold")
    if needles:
        console.print(retrieval.table(needles))
        console.print(f"\n{retrieval.answer(needles)}\n", style="bold")


def _length(said: str, trained: int) -> int:
    """``"4x"`` or ``"16384"`` as a number of tokens."""
    try:
        return round(float(said[:-1]) * trained) if said.endswith("x") else int(said)
    except ValueError as error:
        raise InvalidArgument(f"to={said!r} must be a number of tokens or a multiple such as 4x") from error
