"""Jobs, the progress that they report, and the interface of launchers, which run them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from posenc.errors import InvalidArgument, PosencError
from posenc.workbench.run.plan import Identified, LossCurve, Run
from posenc.workbench.tasks.text import Source


@dataclass(frozen=True)
class Progress:
    """The work that a job has done since its last report.

    Args:
        run: the id of the job's plan.
        work: the amount of the plan's ``work`` that was done.
        first: the number of the first step in ``curve``. A run that resumes from its state reports all earlier
            losses again, from step 0.
        curve: the losses of these steps.
    """

    run: str
    work: float
    first: int = 0
    curve: LossCurve = field(default_factory=LossCurve)


Report = Callable[[Progress], None]
"""A callback that a job calls from time to time."""


def ignore_progress(progress: Progress) -> None:
    """A ``Report`` that does nothing."""


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """One plan with everything that a launcher needs to run it elsewhere. Jobs can be pickled.

    On machines without ``folder``, a launcher gives the job another folder (``replace(job, folder=…)``) and copies
    its files back. A launcher loads each text once and sends jobs a source that contains it.

    Args:
        plan: the plan to run.
        folder: folder for its files, whose names begin with the plan's id. It resumes from a state there.
        source: source of its text; None if it reads none.
    """

    plan: Identified
    folder: Path
    source: Source | None = None

    @property
    def modules(self) -> tuple[Path, ...]:
        """Files and packages of the custom classes that the job imports; launchers ship them to other machines."""
        return ()

    @abstractmethod
    def run(self, report: Report) -> Run:
        """Run the plan in this process."""


@dataclass(frozen=True)
class Failure:
    """A plan whose run failed, and why."""

    plan: Identified
    reason: str

    @classmethod
    def of(cls, plan: Identified, error: BaseException) -> "Failure":
        """The failure of a plan with this error. The reason names the error's class unless it is posenc's own."""
        ours = isinstance(error, PosencError)
        message = str(error) if ours else f"{type(error).__name__}: {error}".removesuffix(": ")
        return cls(plan, " ".join(message.split()))


def attempt(job: Job, report: Report) -> Run | Failure:
    """Run a job, and return its run or its failure. No exception leaves the process, since some cannot be pickled.

    If a device is out of memory, only this job fails.
    """
    try:
        return job.run(report)
    except Exception as error:
        return Failure.of(job.plan, error)


@dataclass(frozen=True)
class Requirements:
    """What a run needs from its machine, with any launcher.

    Args:
        cpus: cores and threads per run, fixed so that numbers do not depend on how many runs are parallel.
        gpus: accelerators per run. If it is below 1, runs share an accelerator.
    """

    cpus: int = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise InvalidArgument(f"cpus={self.cpus} must be at least 1")
        if not (0 <= self.gpus <= 1 or self.gpus in range(2, 1025)):
            raise InvalidArgument(f"gpus={self.gpus} must be a whole number, or a share of a GPU between 0 and 1")


ONE_CORE = Requirements()
"""The default requirements of a run."""


Launcher = Callable[[Sequence[Job], Callable[[Run | Failure], None], Report], None]
"""Runs jobs. A launcher calls ``report`` during runs and ``done`` for every run or failure, all from one thread."""


def in_process(jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
    """Run the jobs in this process, on all its threads. This is for models so large that only one fits."""
    broken: list[Exception] = []

    def guarded(progress: Progress) -> None:
        try:
            report(progress)
        except Exception as error:  # an error in the callback, not a failure of the job
            broken.append(error)
            raise

    for job in jobs:
        result = attempt(job, guarded)
        if broken:
            raise broken[0]
        done(result)
