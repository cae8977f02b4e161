"""Jobs, the progress that they report, the contract of launchers, which run them, and launchers by name."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from posenc.arguments import one_of
from posenc.errors import InvalidArgument, PosencError
from posenc.workbench.run.plan import Identified, LossCurve, Run
from posenc.workbench.tasks.text import Source


@dataclass(frozen=True)
class Progress:
    """The work of a job since its last report.

    Args:
        run: its plan's id.
        work: a part of the plan's ``work``.
        first: number of the first step in ``curve``. A run that continues from its state reports all earlier losses
            again, from step 0.
        curve: of these steps.
    """

    run: str
    work: float
    first: int = 0
    curve: LossCurve = field(default_factory=LossCurve)


Report = Callable[[Progress], None]
"""Called by a job, now and then."""


def ignore_progress(progress: Progress) -> None:
    """A report without a listener."""


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """One plan with all that a launcher needs to run it elsewhere; it can be pickled.

    A launcher to machines without ``folder`` gives the job another one (``replace(job, folder=…)``) and brings its
    files back. It loads a text once and sends jobs a source that holds it.

    Args:
        plan: what it carries out.
        folder: of its files, whose names begin with the plan's id. It continues from the state that it finds there.
        source: of the text that it reads; None where it reads none.
    """

    plan: Identified
    folder: Path
    source: Source | None = None

    @property
    def modules(self) -> tuple[Path, ...]:
        """Files and packages of custom classes, which it imports; a launcher to other machines sends them along."""
        return ()

    @abstractmethod
    def run(self, report: Report) -> Run:
        """Carry out the plan in this process."""


@dataclass(frozen=True)
class Failure:
    """A plan whose run failed, and why."""

    plan: Identified
    reason: str

    @classmethod
    def of(cls, plan: Identified, error: BaseException) -> "Failure":
        """The failure of a plan by this error, named by its class unless it is one of posenc's."""
        ours = isinstance(error, PosencError)
        message = str(error) if ours else f"{type(error).__name__}: {error}".removesuffix(": ")
        return cls(plan, " ".join(message.split()))


def attempt(job: Job, report: Report) -> Run | Failure:
    """The run or its failure: no exception leaves the process, as some cannot be pickled.

    A device that is out of memory fails this job alone.
    """
    try:
        return job.run(report)
    except Exception as error:
        return Failure.of(job.plan, error)


@dataclass(frozen=True)
class Requirements:
    """What a run asks of the machine that it runs on, whichever launcher takes it there.

    Args:
        cpus: cores, and threads that it computes on: numbers do not depend on how many runs there are at once.
        gpus: accelerators; a share below 1 leaves the rest of one to other runs.
    """

    cpus: int = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise InvalidArgument(f"cpus={self.cpus} must be at least 1")
        if not (0 <= self.gpus <= 1 or self.gpus in range(2, 1025)):
            raise InvalidArgument(f"gpus={self.gpus} must be a whole number, or a share of one between 0 and 1")


ONE_CORE = Requirements()
"""Of a run, unless others are given."""


Launcher = Callable[[Sequence[Job], Callable[[Run | Failure], None], Report], None]
"""Runs jobs; calls ``done`` for every run or failure and ``report`` meanwhile, from one thread."""


def in_process(jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
    """Run the jobs in this process, on all its threads: for large models, of which one fits."""
    broken: list[Exception] = []

    def guarded(progress: Progress) -> None:
        try:
            report(progress)
        except Exception as error:  # an error of the listener, and no failure of the job
            broken.append(error)
            raise

    for job in jobs:
        result = attempt(job, guarded)
        if broken:
            raise broken[0]
        done(result)


LAUNCHERS = ("local", "ray", "in-process")


def choose(name: str, workers: int | None = None, requirements: Requirements = ONE_CORE) -> Launcher:
    """The launcher of this name; ``workers`` is for the local one, as Ray fills a cluster."""
    one_of("launcher", name, LAUNCHERS)
    if workers is not None and name != "local":
        raise InvalidArgument(f"workers={workers} is for --launcher local; with {name} leave it out")
    if name == "local":
        from posenc.workbench.launch.local import Local

        return Local(workers, requirements)
    if name == "ray":
        from posenc.workbench.launch.ray import Ray

        return Ray(requirements)
    return in_process
