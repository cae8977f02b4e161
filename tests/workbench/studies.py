"""A study that takes a second, and a launcher without processes, for tests of the workbench."""

from collections.abc import Callable, Iterable
from pathlib import Path

from posenc.workbench.experiments.job import Failure, Job
from posenc.workbench.experiments.plan import Run
from posenc.workbench.experiments.study import Study
from posenc.workbench.experiments.trainer import carry_out
from posenc.workbench.tasks.text import Text, load

TINY = Study(
    encodings=("nope", "rotary", "learned"),
    tasks=("ordering", "needle"),
    lengths=(1, 2),
    steps={"ordering": 3, "needle": 2, "language": 2},
    blocks=4,
    answers=8,
)


def inline(jobs: Iterable[Job], done: Callable[[Run | Failure], None], progress: Callable[[int], None]) -> None:
    """Carry out one job after the other, here."""
    text = load()
    for job in jobs:
        done(carry_out(job.plan, text, job.checkpoints, progress))


def python_text() -> Text:
    return load()


def numbers(folder: Path) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
    """Every measured number of a study's ledger."""
    from posenc.workbench.experiments.ledger import Ledger

    with Ledger(folder) as ledger:
        return {
            (run.plan.id, c.length, c.measure): (c.value if c.count else 0.0, c.detail)
            for run in ledger.runs()
            for c in run.cells
        }
