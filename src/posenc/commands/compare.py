"""`posenc compare`: which encoding holds past its training length, on real text and on order tasks."""

import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from posenc.commands.options import with_settings
from posenc.commands.screen import screen
from posenc.errors import PosencError, StudyError

if TYPE_CHECKING:  # imported when the command runs: `posenc --help` needs none of them
    from posenc.workbench.run.job import Failure, Launcher, Progress
    from posenc.workbench.run.plan import Plan, Run
    from posenc.workbench.study.compare import Outcome
    from posenc.workbench.study.storage import Place
    from posenc.workbench.study.study import Study


@with_settings
def compare(
    preset: Annotated[
        str | None, typer.Option(help="quick (minutes), standard, full, zoo, zoo-grid or small-gpt.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these settings as keys.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes at a time; one per core by default.")] = None,
    launcher: Annotated[
        str, typer.Option(help="local, ray for an existing Ray cluster, torchrun, or here (in this process).")
    ] = "local",
    cpus: Annotated[int, typer.Option(help="Cores and threads of a run.")] = 1,
    gpus: Annotated[float | None, typer.Option(help="GPUs of a run, or a share of one; --devices on cuda.")] = None,
    output: Annotated[
        str, typer.Option(help="Folder of the study, or an address such as s3://…: ledger, weights, figures, page.")
    ] = "study",
    **said: Any,
) -> None:
    """Train the same transformer with each encoding, test it far past its training length, and report.

    Every setting below is also a key of the TOML file and a word of posenc.workbench.study.study.Study.
    Only what differs from the preset need be said.
    """
    from posenc.commands.options import values
    from posenc.workbench.launch.choose import choose
    from posenc.workbench.launch.requirements import Needs
    from posenc.workbench.launch.torchrun import Torchrun
    from posenc.workbench.report.write import write
    from posenc.workbench.study.presets import preset as named
    from posenc.workbench.study.storage import place
    from posenc.workbench.study.study import check_device, read, study

    console = screen()
    sys.path.append(str(Path.cwd()))  # one's own classes lie where the command is typed
    if preset is None:
        preset = read(config).get("preset", "quick") if config else "quick"
    base = named(preset)
    made = study(base, config, values(said))
    if launcher == "local":
        check_device(made.device)
    asked = gpus if gpus is not None else made.devices * made.device.startswith("cuda")
    launch = choose(launcher, workers, Needs(cpus, asked))
    if isinstance(launch, Torchrun) and not launch.first:
        launch.follow()
        return
    where = place(output)
    where.fetch()
    outcome = _carry_out(console, made, launch, where)
    write(outcome, where.folder, _typed(), made)
    _print(console, outcome, where.name)
    where.keep()
    if outcome.failures:
        console.print(f"{len(outcome.failures)} of the runs failed; the same command tries again", style="bold")
        raise typer.Exit(1)


def _carry_out(console: Console, made: "Study", launch: "Launcher", where: "Place") -> "Outcome":
    """Run what is missing, with a bar and a line for every run that ends."""
    from posenc.workbench.launch.local import Local
    from posenc.workbench.report import terminal
    from posenc.workbench.report.live import Live
    from posenc.workbench.run.footprint import check_room
    from posenc.workbench.run.ledger import Ledger
    from posenc.workbench.run.plan import Run
    from posenc.workbench.study.compare import compare as carry_out
    from posenc.workbench.study.compare import missing, outcome

    text, folder = made.source.load(), where.folder
    with Ledger(folder, write=True) as ledger:
        todo, total = missing(made, text, ledger), len(made.plans(text))
        _check_made(todo)
        check_room(todo, text, folder, launch.places if isinstance(launch, Local) else [])
        runs = "1 run" if total == 1 else f"{total} runs"
        console.print(f"{runs}, {total - len(todo)} already done; writing to {where.name}/", soft_wrap=True)
        live = Live(lambda: outcome(made, text, ledger), folder, _typed(), made)
        with terminal.bar(console, "training", sum(plan.steps for plan in todo)) as going:

            def advance(heard: "Progress") -> None:
                going.advance(heard.work)
                where.look(going.say)

            def finished(result: "Run[Plan] | Failure") -> None:
                if isinstance(result, Run):
                    came = result.verdict or f"{result.seconds:.0f} s"
                else:
                    came = f"failed: {result.reason}"
                going.say(f"{result.plan.name}  {came}")
                live.look(going.say)

            return carry_out(made, text, ledger, launch, report=advance, finished=finished)


def _check_made(plans: "Sequence[Plan]") -> None:
    """Refuse somebody's own class that cannot be made: what it raises, and in which of its lines."""
    from posenc.encodings.foreign import modules
    from posenc.encodings.text import parse
    from posenc.workbench.run.training import encoding

    for plan in {plan.settings: plan for plan in plans}.values():
        try:
            encoding(plan)
        except PosencError:
            raise
        except Exception as error:
            own = modules(parse(plan.settings).foreign)
            frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) in own]
            line = f", line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise StudyError(f"encoding {plan.encoding!r} cannot be made ({said}{line})") from error


def _typed() -> str:
    return shlex.join(["posenc", *sys.argv[1:]])


def _print(console: Console, outcome: "Outcome", folder: str) -> None:
    """A table and a sentence for every task, the answer, and where to look next."""
    from posenc.workbench.report import terminal
    from posenc.workbench.report.sentences import answer, sentence

    for result in outcome.results:
        console.print()
        console.print(terminal.table(result))
        console.print(sentence(result))
    console.print(f"\n{answer(outcome.results)}\n", style="bold")
    console.print(f"page    {folder}/report.html", soft_wrap=True)
    console.print(f"figures {folder}/figures/", soft_wrap=True)
    console.print(f"next    posenc runs {folder}", soft_wrap=True)
