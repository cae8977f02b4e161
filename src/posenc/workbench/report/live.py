"""The page of a study under way, written again as runs end, so that loading it again is the live view."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from posenc.workbench.experiments.compare import Outcome
from posenc.workbench.experiments.study import Study
from posenc.workbench.report.write import write

FIRST = 300
"""Seconds before the first page: a study of minutes keeps its processors for its runs."""
APART = 30
"""Times as long as a page takes to write that pass before the next: a thirtieth of the time goes into pages."""


class Live:
    """Writes the page of what a study has found so far.

    Args:
        so_far: what it has found now.
        folder, command, study: as ``write`` takes them.
    """

    def __init__(self, so_far: Callable[[], Outcome], folder: Path, command: str, study: Study) -> None:
        self.so_far, self.folder, self.command, self.study = so_far, folder, command, study
        self.next = time.monotonic() + FIRST

    def look(self) -> None:
        """Write the page, unless that was done just now; a full disk is for the ledger to speak of."""
        started = time.monotonic()
        if started < self.next:
            return
        with suppress(OSError):
            write(self.so_far(), self.folder, self.command, self.study)
        ended = time.monotonic()
        self.next = ended + APART * (ended - started)
