"""Jobs, their progress reports, and the interface of the launchers that run jobs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from posenc.arguments import at_least
from posenc.errors import InvalidArgument, PosencError
from posenc.workbench.custom_code import located
from posenc.workbench.run.plan import Identified, LossCurve, Run
from posenc.workbench.tasks.text import Source


@dataclass(frozen=True)
class Progress:
    """A report of the work that a job has done since its last report.

    Args:
        run: the id of the job's plan.
        work: the number of training steps or of scored tokens.
        first: the number of the first step in ``curve``. A run that resumes from its state reports all earlier
            losses again, from step 0.
        curve: the losses of step ``first`` and the following steps; empty if the job reports no losses.
    """

    run: str
    work: float
    first: int = 0
    curve: LossCurve = field(default_factory=LossCurve)


Report = Callable[[Progress], None]
"""A callback that receives the progress of a job from time to time."""


def ignore_progress(progress: Progress) -> None:
    """Ignore a progress report."""


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """A plan with everything that is needed to run it in another process. Jobs can be pickled.

    On a machine that lacks ``folder``, a launcher gives the job another folder (``replace(job, folder=…)``) and
    copies the files back. A launcher may load each text once, and give jobs a source that contains the loaded
    text.

    Args:
        plan: the plan to run.
        folder: folder for the job's files, whose names begin with the plan's id. If it contains a saved state of
            the job, the job resumes from there.
        source: source of the job's text; None if the job reads no text.
    """

    plan: Identified
    folder: Path
    source: Source | None = None

    @property
    def modules(self) -> tuple[Path, ...]:
        """The files and packages of custom classes that the job imports, which launchers ship to other machines."""
        return ()

    @abstractmethod
    def run(self, report: Report) -> Run:
        """Run the plan in this process."""


@dataclass(frozen=True)
class Failure:
    """A plan whose run failed, and the reason."""

    plan: Identified
    reason: str

    @classmethod
    def of(cls, job: Job, error: BaseException) -> "Failure":
        """Describe a job that failed because of ``error``.

        The reason is the message of the error. Unless the error is a ``PosencError``, the reason also begins with
        the name of the error's class, and it ends with the line number and the file if the code of a custom class
        raised the error.
        """
        ours = isinstance(error, PosencError)
        return cls(job.plan, " ".join(str(error).split()) if ours else located(error, job.modules))


def attempt(job: Job, report: Report) -> Run | Failure:
    """Run a job, and return its run or its failure. No exception is raised, because some exceptions cannot be
    pickled.

    If a device runs out of memory, only this job fails.
    """
    try:
        return job.run(report)
    except Exception as error:
        return Failure.of(job, error)


@dataclass(frozen=True)
class Requirements:
    """The processors and accelerators that a run needs, for any launcher.

    Args:
        cpus: cores and threads per run. The number is fixed, so that results do not depend on the number of
            workers.
        gpus: accelerators per run; runs share an accelerator if this number is below 1.
    """

    cpus: int = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        at_least(1)(self.cpus, "cpus")
        if not (0 <= self.gpus <= 1 or self.gpus in range(2, 1025)):
            raise InvalidArgument(f"gpus={self.gpus} must be a whole number, or a share of a GPU between 0 and 1")


ONE_CORE = Requirements()
"""The default requirements of a run."""


Launcher = Callable[[Sequence[Job], Callable[[Run | Failure], None], Report], None]
"""A function that takes jobs and two callbacks, ``done`` and ``report``. It runs the jobs, calls ``report`` during
each run and ``done`` after it, and makes all these calls from one thread."""


def in_process(jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
    """Run the jobs one after another in this process, with all its threads. Use this launcher if only one model
    fits into memory."""
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
