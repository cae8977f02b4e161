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
    from posenc.workbench.extend.curves import Extension
    from posenc.workbench.extend.decision import Decision
    from posenc.workbench.extend.extend import Request
    from posenc.workbench.extend.models import LanguageModel, OpenedModel
    from posenc.workbench.run.job import Launcher


def extend(
    path: Annotated[
        Path, typer.Argument(help="A study of posenc compare, a Hugging Face folder, or a .gguf file.")
    ],
    to: Annotated[
        str,
        typer.Option(
            help="Length to reach: tokens, or a multiple of the length that the model was released for, 4x."
        ),
    ] = "",
    replace_scaling: Annotated[
        bool,
        typer.Option(
            "--replace-scaling",
            help="Write over the scaling that the model's config states; without it such a model is refused.",
        ),
    ] = False,
    text: Annotated[Path | None, typer.Option(help="A file to read instead of the default text.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Names, separated by commas; yarn(2) is one at a factor of its own.")
    ] = None,
    documents: Annotated[
        int,
        typer.Option(help="Documents to score; fewer where the text ends."),
    ] = 8,
    finetune: Annotated[
        int | None, typer.Option(help="Also after this many steps under each method; 60 for a study, else 0.")
    ] = None,
    positions: Annotated[
        str,
        typer.Option(
            help="Of the windows that --finetune reads: counted, up to four trained lengths, or pose, of the "
            "trained length with positions drawn up to the length to reach."
        ),
    ] = "counted",
    longppl: Annotated[
        str | None,
        typer.Option(
            help="Also LongPPL, the perplexity of tokens that need far text; self, or another model's folder or "
            ".gguf file, names them. Its reading costs about nine texts."
        ),
    ] = None,
    beta_fast: Annotated[
        float, typer.Option(help="YaRN: rotations above which a pair keeps its frequency.")
    ] = 32.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    launcher: Annotated[
        str, typer.Option(help="in-process, local (a process a core, each with the model), or ray.")
    ] = "in-process",
    output: Annotated[Path | None, typer.Option(help="Folder for scores, figures and page.")] = None,
) -> None:
    """Score long documents as they are, cut, and under every scaling, and say what to do."""
    from posenc.workbench.extend.extend import Request
    from posenc.workbench.extend.models import open_model, open_pretrained
    from posenc.workbench.launch.choose import choose
    from posenc.workbench.study.study import check_device

    console = screen(soft_wrap=True)
    _check(dtype, documents, finetune, positions)
    check_device(device)
    launch = choose(launcher)
    opened = open_model(path, text, device, dtype)
    model = opened.model
    request = _request(
        model,
        to,
        None if methods is None else tuple(name.strip() for name in methods.split(",")),
        finetune,
        beta_fast,
        Request(0, documents, (), 0, dtype, device, positions),
    )
    if not replace_scaling:
        _check_stated(model, request.length)
    evaluator = None if longppl is None else model
    if longppl not in (None, "self"):
        evaluator = open_pretrained(Path(longppl), device, dtype)
    folder = output or (path / "extension" if path.is_dir() else Path("extension"))
    _announce(console, model, request, folder)
    extension, seconds = _run(console, opened, request, folder, launch, evaluator)
    _write(console, model, extension, folder, seconds)


def _check(dtype: str, documents: int, finetune: int | None, positions: str) -> None:
    """Refuse option values that no model can take."""
    from posenc.arguments import one_of

    if dtype not in ("float32", "bfloat16"):
        raise InvalidArgument(f"dtype={dtype!r} must be float32 or bfloat16")
    if finetune and dtype != "float32":
        raise InvalidArgument(f"dtype={dtype!r} would round a fine-tune's steps away; use --dtype float32")
    if documents < 1:
        raise InvalidArgument(f"documents={documents} must be at least 1")
    if finetune is not None and finetune < 0:
        raise InvalidArgument(f"finetune={finetune} must be a number of steps; 0 tunes nothing")
    one_of("positions", positions, ("counted", "pose"))


def _check_stated(model: "LanguageModel", length: int) -> None:
    """Refuse to write a longer scaling over one that a config states, with which the model was tuned."""
    from posenc.scaling import Default
    from posenc.workbench.extend.models import StudyModel

    if isinstance(model, StudyModel) or model.scaling == Default() or length <= model.original_length:
        return
    raise InvalidArgument(
        f"the config of {model.name} states {model.scaling}, to which it was tuned for {model.original_length} "
        f"tokens, and a longer one for {length} would be written over it; add --replace-scaling to do so"
    )


def _request(
    model: "LanguageModel",
    to: str,
    names: tuple[str, ...] | None,
    finetune: int | None,
    beta_fast: float,
    base: "Request",
) -> "Request":
    """The request, with the model's defaults for options that were left out."""
    import torch

    from posenc.workbench.extend.methods import methods as named
    from posenc.workbench.extend.models import StudyModel

    ours = isinstance(model, StudyModel)
    if ours:
        torch.set_num_threads(1)  # models of this size wait for threads longer than they compute
    length = _length(to or ("8x" if ours else "2x"), model.original_length)
    factor = max(1.0, length / model.pretrained_length)
    chosen = named(names, model.scaling, model.pretrained_length, factor, beta_fast)
    steps = (60 if ours else 0) if finetune is None else finetune
    if base.positions == "pose" and not steps:
        raise InvalidArgument("positions='pose' are those of a fine-tune; add --finetune STEPS")
    return replace(base, length=length, methods=chosen, finetune=steps)


def _announce(console: Console, model: "LanguageModel", request: "Request", folder: Path) -> None:
    """Print the request and the memory that it needs; refuse fine-tunes that the disk has no room for."""
    from posenc.workbench.extend.models import StudyModel
    from posenc.workbench.run.footprint import check_disk

    console.print(f"{model.name}, trained to {model.original_length}, on to {request.length}; writing to {folder}/")
    if isinstance(model, StudyModel):
        return
    gib = model.memory(request.length) / 2**30
    console.print(f"memory  {model.weights / 2**30:.2f} GiB of weights and up to {gib:.2f} GiB to read beside them")
    if request.finetune:  # weights under each method, and a folder of the best
        check_disk((len(request.methods) + 1) * model.weights, folder, f"{len(request.methods)} fine-tunes")


def _run(
    console: Console,
    opened: "OpenedModel",
    request: "Request",
    folder: Path,
    launch: "Launcher",
    evaluator: "LanguageModel | None",
) -> tuple["Extension", float]:
    """Score, with a bar; also returns the seconds of the ledger's runs."""
    from posenc.workbench.extend.extend import extend as score_methods
    from posenc.workbench.extend.extend import work
    from posenc.workbench.report import terminal
    from posenc.workbench.run.ledger import Ledger

    model, data, read = opened
    total = work(model, request, request.documents, evaluator)
    with (
        Ledger(folder, write=True) as ledger,
        terminal.bar(console, "scoring", total, f"{model.unit}s") as bar,
    ):
        extension = score_methods(model, data, read, request, ledger, launch, bar.advance, evaluator)
        return extension, ledger.seconds()


def _write(
    console: Console,
    model: "LanguageModel",
    extension: "Extension",
    folder: Path,
    seconds: float,
) -> None:
    """Print the answers; write page, config and tuned weights into the folder."""
    from posenc.integrations.fingerprint import fingerprint
    from posenc.integrations.huggingface.config import read
    from posenc.integrations.position_table import of
    from posenc.integrations.programs import laid_over
    from posenc.workbench.extend.decision import config_patch, judge
    from posenc.workbench.extend.models import StudyModel
    from posenc.workbench.report.extension import write
    from posenc.workbench.run.checkpoint import load_weights

    decision, line = judge(extension), shlex.join(["posenc", *sys.argv[1:]])
    patch = config_patch(model, decision, extension.length)
    write(extension, decision, folder, line, seconds, patch)
    _print(console, extension, decision)
    if patch and not isinstance(model, StudyModel):
        (folder / "config-patch.json").write_text(json.dumps(patch, indent=2) + "\n", encoding="utf-8")
        console.print(f"config  {folder}/config-patch.json; commands for servers: posenc inspect --for")
        mark = fingerprint(of(read(laid_over(model.positions.source, patch))))
        console.print(f"        its fingerprint, for CI: {mark}")
    if not isinstance(model, StudyModel):
        tuned = [c.curve for c in decision.candidates if c.change in ("weights", "weights and config")]
        if tuned and tuned[0] and tuned[0].plan and tuned[0].method.scaling:
            weights = load_weights(folder, tuned[0].plan)
            model.save(folder / "tuned", weights, tuned[0].method.scaling, extension.length)
            console.print(f"tuned   {folder}/tuned/, under {tuned[0].method.label}")
    console.print(f"page    {folder}/report.html")


def _print(console: Console, result: "Extension", decision: "Decision") -> None:
    """The decision, its evidence, and a table of the curves as they are, and tuned where they were."""
    from posenc.workbench.report import extension, longppl

    console.print(f"\n{extension.headline(result, decision)}\n", style="bold")
    console.print(f"{extension.answer(result, decision)}\n\n{extension.lengths(result, decision)}\n")
    for tuned in sorted({curve.tuned for curve in result.curves}):
        console.print(extension.table(result, decision, tuned=tuned))
    if result.key is not None:
        console.print(longppl.table(result))
        console.print(f"\n{longppl.answer(result)}\n", style="bold")


def _length(to: str, trained: int) -> int:
    """``"4x"`` or ``"16384"`` as a number of tokens."""
    try:
        return round(float(to[:-1]) * trained) if to.endswith("x") else int(to)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"to={to!r} must be a number of tokens or a multiple such as 4x") from error
