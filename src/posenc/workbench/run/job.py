"""What is sent to be done, what it says while it goes on, and the contract of those who carry it out."""

import multiprocessing as mp
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from posenc.errors import PosencError
from posenc.workbench.run.plan import Identified, Run
from posenc.workbench.tasks.text import Source


@dataclass(frozen=True)
class Progress:
    """What a job has done since it said so last.

    Args:
        run: its plan's id.
        work: how much of the plan's ``work``.
        first: number of the first of the steps whose losses these are. A run that goes on from its state says all
            losses before it once more, from step 0.
        losses: nats per target of each step.
        tokens, seconds: read and spent in these steps.
    """

    run: str
    work: float
    first: int = 0
    losses: tuple[float, ...] = ()
    tokens: int = 0
    seconds: float = 0.0


Report = Callable[[Progress], None]
"""Called by a job, now and then."""


def unheard(progress: Progress) -> None:
    """A report that nobody listens to."""


class Job(Protocol):
    """One plan to carry out, as it travels to whoever does: it can be pickled, and is a frozen dataclass.

    It leaves nothing but files in ``folder`` whose names begin with its plan's id, and goes on from the state that
    it finds there: a launcher without a shared folder gives it one of its own (``replace(job, folder=…)``), brings
    those files there first and away as it goes on. Its text it takes from ``source.load()``, so such a launcher
    loads it once and sends a source that holds it.
    """

    @property
    def plan(self) -> Identified: ...

    @property
    def folder(self) -> Path: ...

    @property
    def source(self) -> Source: ...

    @property
    def modules(self) -> tuple[Path, ...]:
        """Files and packages of somebody's own, which it imports; the launcher may lay them out elsewhere."""

    def carry_out(self, report: Report) -> Run: ...


def find_modules(modules: Sequence[Path]) -> None:
    """Let this process import somebody's own classes from these files and packages."""
    folders = dict.fromkeys(str(module.parent) for module in modules)
    sys.path.extend(folder for folder in folders if folder not in sys.path)


def end_with_parent() -> None:
    """Let this process, which another one spawned, end as soon as that one does, however it ends."""
    parent = mp.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class Failure:
    """A plan that could not be carried out, and why."""

    plan: Identified
    reason: str

    @classmethod
    def of(cls, plan: Identified, error: BaseException) -> "Failure":
        """The plan failed by this error; one that is not ours is named by its class."""
        ours = isinstance(error, PosencError)
        said = str(error) if ours else f"{type(error).__name__}: {error}".removesuffix(": ")
        return cls(plan, " ".join(said.split()))


def attempt(job: Job, report: Report) -> Run | Failure:
    """The run, or why there is none: nothing that a job raises leaves its process, where it might not survive.

    A device's exhausted memory is among it, and ends this job alone.
    """
    try:
        return job.carry_out(report)
    except Exception as error:
        return Failure.of(job.plan, error)


class Launcher(Protocol):
    """Carries out jobs; calls ``done`` for every run or failure and ``report`` as they go on, from one thread."""

    def __call__(self, jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None: ...
