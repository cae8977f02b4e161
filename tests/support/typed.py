"""A study in a separate folder, run from the command line: started, watched from outside, and finished."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from support.studies import numbers


class Typed:
    """A study as typed on the command line.

    Args:
        folder: the folder of the study.
        config: its TOML file; commands run in the folder of this file.
        words: other words in every command.
    """

    def __init__(self, folder: Path, config: Path, *words: str) -> None:
        self.folder, self.config, self.words = folder, config, words

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Run the command in a process that leads its own group."""
        command = [sys.executable, "-m", "posenc", "compare", "--config", str(self.config), *self.words, *words]
        where = {"cwd": self.config.parent, "start_new_session": True, "stdout": subprocess.DEVNULL}
        return subprocess.Popen([*command, "--output", str(self.folder)], **where)  # type: ignore[call-overload,no-any-return]

    def started(self, ready: Callable[[], bool], *words: str) -> subprocess.Popen[bytes]:
        """Run the command, and wait until ``ready`` is true while it is still running."""
        process = self.start(*words)
        while process.poll() is None and not ready():
            time.sleep(0.01)
        assert process.poll() is None, "it ended before that"
        return process

    def finish(self, *words: str) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
        """Run the command to its end, and return every number in the ledger."""
        assert self.start(*words).wait() == 0
        return numbers(self.folder)

    def rows(self, table: str = "runs") -> int:
        """The number of rows in a table of the ledger, read while the process writes it."""
        try:
            with closing(sqlite3.connect(f"file:{self.folder / 'ledger.sqlite'}?mode=ro", uri=True)) as ledger:
                return int(ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        except sqlite3.OperationalError:  # no file or no schema yet
            return 0
