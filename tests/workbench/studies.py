"""A study that takes a second, and a launcher without processes, for tests of the workbench."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from posenc.workbench.experiments.study import Study
from posenc.workbench.launch.desk import Beside
from posenc.workbench.launch.job import Job, Listener
from posenc.workbench.launch.store import Store
from posenc.workbench.tasks.text import Text, load

TINY = Study(
    encodings=("nope", "rotary", "learned"),
    tasks=("ordering", "needle"),
    lengths=(1, 2),
    steps={"ordering": 3, "needle": 2, "language": 2},
    blocks=4,
    answers=8,
)


def inline(jobs: Iterable[Job], store: Store, listener: Listener) -> None:
    """Carry out one job after the other, here."""
    for job in jobs:
        desk = Beside(store, partial(listener.progress, job))
        found = job.work(desk)
        desk.flush()
        listener.done(job, found)


@dataclass
class Heard:
    """A listener that remembers."""

    steps: Counter[str] = field(default_factory=Counter)
    losses: dict[str, list[float]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)

    def progress(self, job: Job, steps: int, losses: Sequence[float]) -> None:
        self.steps[job.id] += steps
        self.losses.setdefault(job.id, []).extend(losses)

    def done(self, job: Job, found: Any) -> None:
        self.found[job.id] = found


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
