"""`posenc extend`: how a rotary model behaves past its trained length under every scaling method."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from posenc.commands.screen import screen
from posenc.errors import InvalidArgument

if TYPE_CHECKING:  # imported when the command runs
    from posenc.workbench.extend.extend import Extension, Request
    from posenc.workbench.extend.models import LanguageModel, OpenedModel
    from posenc.workbench.extend.retrieval import Reader, Retrieval
    from posenc.workbench.run.job import Launcher
    from posenc.workbench.study.storage import Place


def extend(
    path: Annotated[
        str,
        typer.Argument(
            help="A study of posenc compare, its address such as s3://…, a Hugging Face folder, or a .gguf file."
        ),
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
    output: Annotated[
        str | None, typer.Option(help="Folder for scores, figures and page, or an address such as s3://….")
    ] = None,
) -> None:
    """Score long documents under every way of scaling the frequencies, and say which one to use."""
    from posenc.workbench.extend.extend import Request
    from posenc.workbench.extend.models import open_model
    from posenc.workbench.extend.retrieval import reader
    from posenc.workbench.launch.choose import choose
    from posenc.workbench.study.storage import brought, is_address, place
    from posenc.workbench.study.study import check_device

    console = screen(soft_wrap=True)
    _check(dtype, documents, finetune)
    check_device(device)
    launch = choose(launcher)
    lies = brought(path)
    opened = open_model(lies, text, device, dtype, path)
    model = opened.model
    asked = reader(model) if needle else None
    request = _request(model, to, methods, finetune, beta_fast, Request(0, documents, (), 0, dtype, device))
    beside = is_address(path) or lies.is_dir()
    apart = f"{path.rstrip('/')}/extension" if beside else "extension"
    where = place(apart if output is None else output)
    where.fetch()
    _announce(console, model, request, where, needle)
    found, needles, spent = _carry_out(console, opened, asked, request, where, launch)
    _leave(console, model, found, needles, where, spent)
    where.keep()


def _check(dtype: str, documents: int, finetune: int | None) -> None:
    """Refuse words of the command that no model could be asked by."""
    if dtype not in ("float32", "bfloat16"):
        raise InvalidArgument(f"dtype={dtype!r} must be float32 or bfloat16")
    if documents < 1:
        raise InvalidArgument(f"documents={documents} must be at least 1")
    if finetune is not None and finetune < 0:
        raise InvalidArgument(f"finetune={finetune} must be a number of steps; 0 tunes nothing")


def _request(
    model: "LanguageModel", to: str, methods: str | None, finetune: int | None, beta_fast: float, base: "Request"
) -> "Request":
    """What is asked, with a model's own defaults where nothing was said."""
    import torch

    from posenc.workbench.extend.methods import methods as named
    from posenc.workbench.extend.models import StudyModel

    ours = isinstance(model, StudyModel)
    if ours:
        torch.set_num_threads(1)  # models of this size wait for threads longer than they compute
    length = _length(to or ("8x" if ours else "2x"), model.original_length)
    names = None if methods is None else tuple(name.strip() for name in methods.split(","))
    factor = max(1.0, length / model.pretrained_length)
    chosen = named(names, model.scaling, model.pretrained_length, factor, beta_fast)
    steps = (60 if ours else 0) if finetune is None else finetune
    return replace(base, length=length, methods=chosen, finetune=steps)


def _announce(console: Console, model: "LanguageModel", request: "Request", where: "Place", needle: bool) -> None:
    """Say what will be done and what it needs; refuse what the disk has no room for."""
    from posenc.workbench.extend.models import PretrainedModel
    from posenc.workbench.run.footprint import check_disk

    console.print(
        f"{model.name}, trained to {model.original_length}, on to {request.length}; writing to {where.name}/"
    )
    if not isinstance(model, PretrainedModel):
        return
    gib = model.memory(request.length, cached=needle) / 2**30
    console.print(f"memory  {model.weights / 2**30:.2f} GiB of weights and up to {gib:.2f} GiB to read beside them")
    if request.finetune:  # weights under each method, and a folder of the best
        check_disk((len(request.methods) + 1) * model.weights, where.folder, f"{len(request.methods)} fine-tunes")


def _carry_out(
    console: Console,
    opened: "OpenedModel",
    asked: "Reader | None",
    request: "Request",
    where: "Place",
    launch: "Launcher",
) -> tuple["Extension", "Retrieval | None", float]:
    """Score, and ask where that is wanted, with a bar; and the seconds that the ledger's runs took."""
    from posenc.workbench.extend.extend import extend as carry_out
    from posenc.workbench.extend.extend import work
    from posenc.workbench.extend.retrieval import retrieve
    from posenc.workbench.extend.retrieval import work as asking
    from posenc.workbench.report import terminal
    from posenc.workbench.run.ledger import Ledger

    model, data, read = opened
    total = work(model, request, request.documents) + (asking(model.original_length, request) if asked else 0)
    with (
        Ledger(where.folder, write=True) as ledger,
        terminal.bar(console, "scoring", total, f"{model.unit}s") as going,
    ):

        def advance(tokens: float) -> None:
            going.advance(tokens)
            where.look(going.say)

        found = carry_out(model, data, read, request, ledger, launch, advance)
        same = replace(request, length=found.length)
        needles = retrieve(asked, data, read, same, ledger, launch, advance) if asked else None
        return found, needles, ledger.seconds()


def _leave(
    console: Console,
    model: "LanguageModel",
    found: "Extension",
    needles: "Retrieval | None",
    where: "Place",
    spent: float,
) -> None:
    """Answers on the screen; page, config and tuned weights in the folder."""
    from posenc.workbench.extend.models import PretrainedModel, config_patch
    from posenc.workbench.extend.verdict import judge
    from posenc.workbench.report.extension import write
    from posenc.workbench.run.weights import weights

    folder, shown = where.folder, where.name
    patch = config_patch(model, judge(found).chosen.curve.method, found.length)
    write(found, folder, shlex.join(["posenc", *sys.argv[1:]]), spent, patch, needles)
    _print(console, found, needles)
    if patch:
        (folder / "config-patch.json").write_text(json.dumps(patch, indent=2) + "\n", encoding="utf-8")
        console.print(f"config  {shown}/config-patch.json")
    if found.finetune and isinstance(model, PretrainedModel):
        best = judge(found, tuned=True).chosen.curve
        if best.plan is not None and best.method.scaling is not None:  # no config says that nothing turns
            model.save(folder / "tuned", weights(folder, best.plan), best.method.scaling, found.length)
            console.print(f"tuned   {shown}/tuned/, under {best.method.label}, for transformers to open")
    console.print(f"page    {shown}/report.html")


def _print(console: Console, found: "Extension", needles: "Retrieval | None") -> None:
    """A table and an answer for the curves as they are, tuned where they were, and for the needles."""
    from posenc.workbench.extend.verdict import judge
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
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"to={said!r} must be a number of tokens or a multiple such as 4x") from error
