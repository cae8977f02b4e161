"""The desk of a job that runs beside its store: reports in batches, files as they are."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from posenc.workbench.launch.store import Store

REPORT_EVERY = 0.25
"""Seconds between what a job reports."""


class Reports:
    """Gathers steps and losses, and says them a few times a second.

    Args:
        say: called with steps and losses.
    """

    def __init__(self, say: Callable[[int, tuple[float, ...]], None]) -> None:
        self.say = say
        self._steps, self._losses, self._last = 0, list[float](), time.monotonic()

    def report(self, steps: int, losses: Sequence[float] = ()) -> None:
        """Note what is done; said now if the last time is long enough ago."""
        self._steps += steps
        self._losses += losses
        if time.monotonic() - self._last > REPORT_EVERY:
            self.flush()

    def flush(self) -> None:
        """Say what is not said yet."""
        if self._steps or self._losses:
            self.say(self._steps, tuple(self._losses))
        self._steps, self._losses, self._last = 0, [], time.monotonic()


class Beside(Reports):
    """A desk on the machine of the store."""

    def __init__(self, store: Store, say: Callable[[int, tuple[float, ...]], None]) -> None:
        super().__init__(say)
        self.store = store

    def read(self, name: str) -> bytes | None:
        return self.store.read(name)

    def keep(self, name: str, data: bytes) -> None:
        self.flush()
        self.store.write(name, data)

    def path(self, file: Path) -> Path:
        return file
