"""The page of a study under way, written again as runs end, so that loading it again is the live view."""

import time
from collections.abc import Callable
from pathlib import Path

from posenc.workbench.report.write import write
from posenc.workbench.study.comparison import Outcome
from posenc.workbench.study.study import Study

FIRST = 300
"""Seconds before the first page: a study of minutes keeps its processors for its runs."""
APART = 30
"""Times as long as a page takes to write that pass before the next: a thirtieth of the time goes into pages."""


class Live:
    """Writes the page of a study under way.

    Args:
        so_far: gives the outcome up to now.
        folder, command, study: as ``write`` takes them.
    """

    def __init__(self, so_far: Callable[[], Outcome], folder: Path, command: str, study: Study) -> None:
        self.so_far, self.folder, self.command, self.study = so_far, folder, command, study
        self.next, self.failed = time.monotonic() + FIRST, False

    def look(self, say: Callable[[str], None]) -> None:
        """Write the page, unless that was done just now; an error is reported once and ends no run."""
        started = time.monotonic()
        if started < self.next:
            return
        try:
            write(self.so_far(), self.folder, self.command, self.study)
        except Exception as error:
            if not self.failed:
                say(f"the page cannot be written yet ({type(error).__name__}: {error}); the runs go on")
            self.failed = True
        ended = time.monotonic()
        self.next = ended + APART * (ended - started)
