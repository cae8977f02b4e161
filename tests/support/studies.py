"""A study that takes a second, and a launcher without processes, for tests of the workbench."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from posenc.workbench.run.job import Failure, Job, Report
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Cell, Plan, Run
from posenc.workbench.study.comparison import Comparison, Outcome
from posenc.workbench.study.study import Study
from posenc.workbench.tasks.text import Text, load

TINY = Study(
    encodings=("nope", "rotary", "learned"),
    tasks=("ordering", "needle"),
    lengths=(1, 2),
    steps={"ordering": 3, "needle": 2, "language": 2},
    batch=8,
    blocks=4,
    answers=8,
)

SHARED = replace(
    TINY,
    encodings=("nope", "rotary", "learned(past_end=clamp)"),
    tasks=("needle", "language"),
    norm="rms",
    activation="swiglu",
    learning_rate=6e-4,
)
"""The study that a process trains once for all its tests."""


def inline(jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
    """Run jobs one after another in this process."""
    for job in jobs:
        done(job.run(report))


class KilledError(Exception):
    """What stops a training in the middle."""


def plan_of(encoding: str, **more: Any) -> Plan:
    """Return a plan with ten steps on the needle task."""
    portions = {"steps": 10, "batch": 4, "learning_rate": 1e-3, "train_length": 64}
    tests = {"lengths": (64, 128), "test_count": 8}
    return Plan(**{"encoding": encoding, "task": "needle", "seed": 0, **portions, **tests, **more})


def python_text() -> Text:
    return load()


def ran(study: Study, folder: Path) -> Outcome:
    """Carry the study out in this process, with its ledger in this folder, and return its outcome."""
    with Ledger(folder, write=True) as ledger:
        return Comparison(study, study.read_text(), ledger).run(inline)


def runs_in(folder: Path) -> list[Run]:
    """Return the runs in a study's ledger."""
    with Ledger(folder) as ledger:
        return ledger.runs()


def numbers(folder: Path) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
    """Return every measured number in a study's ledger."""
    return {
        (run.plan.id, c.length, c.measure): (c.value if c.count else 0.0, c.detail)
        for run in runs_in(folder)
        for c in run.cells
    }


def measured(
    encoding: str, blocks: Mapping[int, Sequence[float]], measures: Sequence[str] = ("loss",), **more: Any
) -> Run:
    """Return a run on language with these losses of blocks, by length."""
    plan = plan_of(
        encoding, task="language", lengths=tuple(blocks), test_count=len(next(iter(blocks.values()))), **more
    )
    cells = (Cell(n, measure, fmean(b), len(b), tuple(b)) for n, b in blocks.items() for measure in measures)
    return Run(plan, tuple(cells), 1.0, 10, 0.1)
