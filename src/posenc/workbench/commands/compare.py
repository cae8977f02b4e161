"""`posenc compare`: which encoding holds past its training length, on real text and on order tasks."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from posenc.errors import InvalidArgument
from posenc.workbench.screen import screen

if TYPE_CHECKING:  # imported when the command runs: `posenc --help` needs none of them
    from posenc.workbench.experiments.compare import Outcome
    from posenc.workbench.experiments.job import Failure, Launcher
    from posenc.workbench.experiments.plan import Run
    from posenc.workbench.experiments.study import Study


def compare(
    preset: Annotated[str, typer.Option(help="quick (minutes), standard (3 seeds) or full (5 seeds).")] = "quick",
    config: Annotated[Path | None, typer.Option(help="A TOML file with the study's keys.")] = None,
    encodings: Annotated[
        str | None,
        typer.Option(help="Separated by commas: t5, rotary(base=500000), layers(rotary*3 + nope), my_file:Mine."),
    ] = None,
    tasks: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    lengths: Annotated[str | None, typer.Option(help="Multiples of the trained length, such as 1,2,4,8.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs per encoding and task.")] = None,
    text: Annotated[Path | None, typer.Option(help="A file to read instead of the Python topics.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float64.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes at a time; one per core by default.")] = None,
    launcher: Annotated[str, typer.Option(help="local, or ray for an existing Ray cluster.")] = "local",
    output: Annotated[Path, typer.Option(help="Folder of the study: ledger, weights, figures, page.")] = Path(
        "study"
    ),
) -> None:
    """Train the same small transformer with each encoding, test it far past its training length, and report."""
    from posenc.encodings.text import split
    from posenc.workbench.experiments.study import study
    from posenc.workbench.launch.choose import choose
    from posenc.workbench.report.write import write

    console = screen()
    said = {
        "encodings": None if encodings is None else tuple(split(encodings)),
        "tasks": _names(tasks),
        "lengths": _numbers(lengths),
        "seeds": seeds,
        "text": text,
        "device": device,
        "dtype": dtype,
    }
    sys.path.append(str(Path.cwd()))  # one's own classes lie where the command is typed
    made = study(preset, config, said)
    outcome = _carry_out(console, made, choose(launcher, workers), output)
    page = write(outcome, output, shlex.join(["posenc", *sys.argv[1:]]), made)
    _print(console, outcome, page, output)
    if outcome.failures:
        console.print(f"{len(outcome.failures)} runs failed; the same command tries them again", style="bold")
        raise typer.Exit(1)


def _carry_out(console: Console, made: "Study", launch: "Launcher", output: Path) -> "Outcome":
    """Run what is missing, with a bar and a line for every run that ends."""
    from posenc.workbench.experiments.compare import compare as carry_out
    from posenc.workbench.experiments.compare import missing
    from posenc.workbench.experiments.ledger import Ledger
    from posenc.workbench.experiments.plan import Run
    from posenc.workbench.report import terminal
    from posenc.workbench.tasks.text import load

    text = load(made.text)
    with Ledger(output, write=True) as ledger:
        todo, total = missing(made, text, ledger), len(made.plans(text))
        console.print(f"{total} runs, {total - len(todo)} already done; writing to {output}/", soft_wrap=True)
        with terminal.bar(console, "training", sum(plan.steps for plan in todo)) as progress:

            def advance(steps: int) -> None:
                progress.advance(progress.task_ids[0], steps)

            def finished(result: "Run | Failure") -> None:
                said = f"{result.seconds:.0f} s" if isinstance(result, Run) else f"failed: {result.reason}"
                progress.console.print(f"  {result.plan.name}  {said}", style="dim", soft_wrap=True)

            return carry_out(made, text, ledger, launch, progress=advance, finished=finished)


def _print(console: Console, outcome: "Outcome", page: Path, output: Path) -> None:
    """A table and a sentence for every task, the answer, and where to look next."""
    from posenc.workbench.report import terminal
    from posenc.workbench.report.sentences import answer, sentence

    for result in outcome.results:
        console.print()
        console.print(terminal.table(result))
        console.print(sentence(result))
    console.print(f"\n{answer(outcome.results)}\n", style="bold")
    console.print(f"page    {page}", soft_wrap=True)
    console.print(f"figures {output / 'figures'}/", soft_wrap=True)
    console.print(f"next    posenc runs {output}", soft_wrap=True)


def _names(said: str | None) -> tuple[str, ...] | None:
    return None if said is None else tuple(name.strip() for name in said.split(",") if name.strip())


def _numbers(said: str | None) -> tuple[float, ...] | None:
    if said is None:
        return None
    try:
        return tuple(float(part) for part in said.split(","))
    except ValueError as error:
        raise InvalidArgument(f"lengths={said!r} must be numbers separated by commas, such as 1,2,4,8") from error
