"""`posenc compare`: tests which encodings work past the training length, on real text and on synthetic tasks."""

import inspect
import re
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from posenc.commands.screen import screen
from posenc.errors import InvalidArgument
from posenc.workbench.run.settings import ByTask, Grid, Model, Setting, TextSettings, Training, declared

if TYPE_CHECKING:  # the command imports these, so that `posenc --help` need not
    from posenc.workbench.run.job import Launcher
    from posenc.workbench.run.plan import Run
    from posenc.workbench.study.comparison import Outcome
    from posenc.workbench.study.study import Study

PANELS = {Grid: "What is compared", TextSettings: "Text", Model: "Model", ByTask: "By task", Training: "Training"}
"""The groups of settings, with their headings in the help."""


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with one option per setting of a study instead of ``**settings``.

    An option that is not given is None; its value then comes from the file or the preset.
    """
    signature = inspect.signature(command)
    options = [
        *(p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD),
        *(_option(name, s, title) for group, title in PANELS.items() for name, s in declared(group).items()),
    ]
    command.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def _option(name: str, setting: Setting, panel: str) -> inspect.Parameter:
    kind = setting.kind if setting.kind in (bool, Path) and not setting.many else str
    help = f"{setting.help} ({setting.range})" if setting.range else setting.help
    option = typer.Option(
        help=help + "; one value for all tasks, or language=…,needle=…" * setting.by_task, rich_help_panel=panel
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


@with_settings
def compare(
    preset: Annotated[
        str | None,
        typer.Option(
            help="A named study: quick (minutes), standard, full, zoo, zoo-grid, architecture or small-gpt."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file whose keys are the settings below.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of parallel processes; by default one per core.")
    ] = None,
    launcher: Annotated[
        str, typer.Option(help="Where to run: local, ray (an existing Ray cluster), or in-process.")
    ] = "local",
    cpus: Annotated[
        int | None, typer.Option(help="Number of cores and threads per run; by default 1; in-process uses all.")
    ] = None,
    gpus: Annotated[
        float | None, typer.Option(help="Number of GPUs per run, which may be below 1; by default 1 on cuda.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the study's ledger, weights and report.")] = Path(
        "study"
    ),
    part: Annotated[
        str, typer.Option(help="Run only this part: 3/16 is the third of 16 parts; merge with posenc runs --merge.")
    ] = "1/1",
    **settings: Any,
) -> None:
    """Train the same transformer with each encoding, test it far past its training length, and write a report.

    Every setting below is also a key of the --config file and an argument of posenc.workbench.study.study.Study.
    Settings that are not given come from the preset. A model or training setting may be a list, such as
    --learning-rate 1e-3,3e-3; every encoding is then trained with each value.
    """
    from posenc.workbench.launch.launcher import choose
    from posenc.workbench.report.write import write
    from posenc.workbench.run.job import Requirements
    from posenc.workbench.run.machine import check_device
    from posenc.workbench.study.study import read_study

    console, runs = screen(), _part(part)
    sys.path.append(str(Path.cwd()))  # custom classes may be in the current folder
    study = read_study(preset, config, settings)
    if study.text and output.resolve().is_relative_to(study.text.resolve()):
        raise InvalidArgument(
            f"output={str(output)!r} is inside {str(study.text)!r}, the folder of the text, so the results would "
            "become part of the text; choose a folder outside it"
        )
    if launcher != "ray":
        check_device(study.device)
    needs: dict[str, Any] = {name: n for name, n in (("cpus", cpus), ("gpus", gpus)) if n is not None}
    if needs and launcher == "in-process":
        raise InvalidArgument(
            f"--launcher in-process cannot limit runs to {' and '.join(f'{key}={n}' for key, n in needs.items())}; "
            "omit the limit, or use --launcher local"
        )
    launch = choose(launcher, workers, Requirements(**{"gpus": float(study.device.startswith("cuda")), **needs}))
    page = partial(write, folder=output, command=shlex.join(["posenc", *sys.argv[1:]]), study=study)
    outcome = _run(console, study, launch, output, runs, page)
    page(outcome)
    _print(console, outcome, output)
    if outcome.failures:
        console.print(
            f"{len(outcome.failures)} of the runs failed; correct the causes above, then run the same command to "
            "repeat these runs",
            style="bold",
        )
        raise typer.Exit(1)


def _part(text: str) -> slice:
    """Return the slice of planned runs for a part such as ``3/16``: every sixteenth run from the third on."""
    words = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    number, parts = map(int, words.groups()) if words else (0, 0)
    if not 1 <= number <= parts:
        raise InvalidArgument(f"part={text!r} must be the part's number and the number of parts, such as 3/16")
    return slice(number - 1, None, parts)


def _run(
    console: Console,
    study: "Study",
    launch: "Launcher",
    folder: Path,
    part: slice,
    page: "Callable[[Outcome], object]",
) -> "Outcome":
    """Execute the planned runs that are not in the ledger yet. Show a progress bar and one line per finished run,
    and update the report from time to time.
    """
    from posenc.workbench.report import terminal, words
    from posenc.workbench.report.write import Live
    from posenc.workbench.run.job import Failure
    from posenc.workbench.run.ledger import Ledger
    from posenc.workbench.study.comparison import Comparison

    with Ledger(folder, write=True) as ledger:
        comparison = Comparison(study, study.read_text(console.print), ledger, part)
        names = words.names(comparison.plans)
        missing, total = comparison.missing, len(comparison.plans)
        runs = "1 run" if total == 1 else f"{total} runs"
        console.print(f"{runs}, {total - len(missing)} already done; writing to {folder}/", soft_wrap=True)
        live = Live(lambda: page(comparison.outcome()))
        with terminal.bar(console, "training", sum(plan.steps for plan in missing)) as bar:

            def finished(result: "Run | Failure") -> None:
                ending = (
                    f"failed: {result.reason}"
                    if isinstance(result, Failure)
                    else result.verdict or f"{result.seconds:.0f} s"
                )
                bar.say(f"{names[result.plan.id]}  {ending}")
                live.look(bar.say)

            return comparison.run(launch, report=lambda progress: bar.advance(progress.work), finished=finished)


def _print(console: Console, outcome: "Outcome", folder: Path) -> None:
    """Print a table and a sentence for every task, then the study's overall answer and the command to run next."""
    from posenc.workbench.report import terminal
    from posenc.workbench.report.words import answer, mixed, sentence

    for result in outcome.results:
        console.print()
        console.print(terminal.table(result))
        console.print(sentence(result))
    console.print(f"\n{answer(outcome.results)}\n", style="bold")
    for line in mixed([run for result in outcome.results for run in result.runs]):
        console.print(f"runs differ in {line}", soft_wrap=True)
    console.print(f"page    {folder}/report.html", soft_wrap=True)
    console.print(f"next    {shlex.join(['posenc', 'runs', str(folder)])}", soft_wrap=True)
