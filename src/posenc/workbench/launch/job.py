"""The contract of launchers: they carry out jobs, pass on what these report, and hand back what they found.

The driver, where the command was typed, owns the ledger and the store. A job owns nothing: it reads, reports and
keeps over its desk, so that it runs in a process beside the driver or on a machine that shares no folder with it.
"""

import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from posenc.errors import InvalidArgument, PosencError
from posenc.workbench.launch.store import Store


@dataclass(frozen=True)
class Needs:
    """What a job asks of the machine that it runs on.

    Args:
        cpus: cores, and threads that it computes on: numbers do not depend on how many jobs run beside it.
        gpus: accelerators; a fraction below 1 shares one with other jobs.
    """

    cpus: int = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise InvalidArgument(f"cpus={self.cpus} must be at least 1")
        if not (0 <= self.gpus <= 1 or self.gpus in range(2, 1025)):
            raise InvalidArgument(f"gpus={self.gpus} must be a whole number, or a share of one between 0 and 1")


class Desk(Protocol):
    """All that a running job has of its study."""

    def report(self, steps: int, losses: Sequence[float] = ()) -> None:
        """Say that so many steps are done, and the loss of each where there is one."""

    def read(self, name: str) -> bytes | None:
        """A file of the study that the job names in ``resumes``, as it was last kept; None where there is none."""

    def keep(self, name: str, data: bytes) -> None:
        """Keep a file of the study, whole or not at all; what was reported before is told before it is there."""

    def path(self, file: Path) -> Path:
        """Where a file that the job names in ``files`` lies on this machine."""


@dataclass(frozen=True)
class Job:
    """Something to do anywhere.

    Args:
        id: distinct among jobs, and the same whenever the same is asked.
        name: for a reader.
        work: does it, and returns what it found; all of it is pickled. Called again after its process or machine
            died, it goes on from what it kept.
        needs: of the machine.
        resumes: names of the study's files that it goes on from.
        files: of the driver's machine, which it reads.
        modules: files or packages of one's own code, which it imports.
    """

    id: str
    name: str
    work: Callable[[Desk], Any]
    needs: Needs = Needs()
    resumes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    modules: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A job that could not be done, and why.

    Args:
        reason: one line.
        error: what it raised, where that survives the way to the driver.
        trace: where it was raised.
    """

    name: str
    reason: str
    error: Exception | None = None
    trace: str = ""

    @classmethod
    def of(cls, name: str, error: BaseException) -> "Failure":
        """The job failed by this error; one that is not ours is named by its class."""
        said = (
            str(error) if isinstance(error, PosencError) else f"{type(error).__name__}: {error}".removesuffix(": ")
        )
        trace = "".join(traceback.format_exception(error))
        kept: Exception | None = None
        try:
            kept = pickle.loads(pickle.dumps(error)) if isinstance(error, Exception) else None
        except Exception:  # one's own class may refuse in any way; its name and words are kept
            kept = None
        return cls(name, said, kept, trace)


class Listener(Protocol):
    """Who is told, on one thread."""

    def progress(self, job: Job, steps: int, losses: Sequence[float]) -> None:
        """A running job has done steps; those of a job that starts anew are told again."""

    def done(self, job: Job, found: Any) -> None:
        """A job has ended, with what it found or with a ``Failure``."""


class Launcher(Protocol):
    """Carries out every job; one that fails is a failed job and ends no other."""

    def __call__(self, jobs: Iterable[Job], store: Store, listener: Listener) -> None: ...


def carry_out(job: Job, desk: Desk) -> Any:
    """What the job finds, or its ``Failure``: nothing that it raises leaves its process as an exception.

    Its code comes from where the desk has its modules; it computes on the threads that it asked for.
    """
    import torch

    try:
        torch.set_num_threads(job.needs.cpus)
        folders = dict.fromkeys(str(desk.path(module).parent) for module in job.modules)
        sys.path.extend(folder for folder in folders if folder not in sys.path)
        return job.work(desk)
    except Exception as error:  # the machine's memory is the job's affair too: torch's OutOfMemoryError is one
        return Failure.of(job.name, error)
