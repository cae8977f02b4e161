"""What is sent to be done, what comes back when it cannot be, and the contract of those who carry it out."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from posenc.errors import PosencError
from posenc.workbench.experiments.plan import Plan, Run
from posenc.workbench.experiments.trainer import carry_out
from posenc.workbench.tasks.text import load


@dataclass(frozen=True)
class Job:
    """A plan and where its worker finds the text, leaves the weights, and finds modules of one's own."""

    plan: Plan
    text: Path | None
    checkpoints: Path
    folders: tuple[str, ...] = ()

    def find_modules(self) -> None:
        """Let this process import what the job's encoding comes from."""
        sys.path.extend(folder for folder in self.folders if folder not in sys.path)

    def carry_out(self, progress: Callable[[int], None] = lambda steps: None) -> Run:
        """Train and test, in this process."""
        self.find_modules()
        return carry_out(self.plan, load(self.text), self.checkpoints, progress)


@dataclass(frozen=True)
class Failure:
    """A plan that could not be carried out, and why."""

    plan: Plan
    reason: str

    @classmethod
    def of(cls, plan: Plan, error: BaseException) -> "Failure":
        """The plan failed by this error; one that is not ours is named by its class."""
        ours = isinstance(error, PosencError)
        return cls(plan, str(error) if ours else f"{type(error).__name__}: {error}".removesuffix(": "))


class Launcher(Protocol):
    """Carries out jobs; calls ``done`` for every run or failure and ``progress`` with steps, from one thread."""

    def __call__(
        self,
        jobs: Iterable[Job],
        done: Callable[[Run | Failure], None],
        progress: Callable[[int], None],
    ) -> None: ...
