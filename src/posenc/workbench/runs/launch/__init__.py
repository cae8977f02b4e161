"""Launchers: each carries out plans somewhere and hands every finished run back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from posenc.workbench.runs.plan import Plan, Run


@dataclass(frozen=True)
class Job:
    """A plan and where its worker finds the text and leaves the weights."""

    plan: Plan
    text: Path | None
    checkpoints: Path


@dataclass(frozen=True)
class Failure:
    """A plan that could not be carried out, and why."""

    plan: Plan
    reason: str


class Launcher(Protocol):
    """Carries out jobs; calls ``done`` for every run or failure and ``progress`` with steps, from one thread."""

    def __call__(
        self,
        jobs: Iterable[Job],
        done: Callable[[Run | Failure], None],
        progress: Callable[[int], None],
    ) -> None: ...
