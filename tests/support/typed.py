"""Starts, watches and finishes a study in a separate folder from the command line."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from support.studies import numbers


class Typed:
    """A study that is run from the command line.

    Args:
        folder: the folder of the study.
        config: its TOML file; commands run in the folder of this file.
        words: other words in every command.
    """

    def __init__(self, folder: Path, config: Path, *words: str) -> None:
        self.folder, self.config, self.words = folder, config, words

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start the command in a process that leads its own process group."""
        command = [sys.executable, "-m", "posenc", "compare", "--config", str(self.config), *self.words, *words]
        where = {"cwd": self.config.parent, "start_new_session": True, "stdout": subprocess.DEVNULL}
        return subprocess.Popen([*command, "--output", str(self.folder)], **where)  # type: ignore[call-overload,no-any-return]

    def started(self, ready: Callable[[], bool], *words: str) -> subprocess.Popen[bytes]:
        """Start the command, and wait until ``ready`` returns True while the command runs."""
        process = self.start(*words)
        while process.poll() is None and not ready():
            time.sleep(0.01)
        assert process.poll() is None, "it ended before that"
        return process

    def finish(self, *words: str) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
        """Run the command until it ends, and return every number in the ledger."""
        assert self.start(*words).wait() == 0
        return numbers(self.folder)

    def rows(self, table: str = "runs") -> int:
        """Return the number of rows in a table of the ledger while the process writes to the ledger."""
        try:
            with closing(sqlite3.connect(f"file:{self.folder / 'ledger.sqlite'}?mode=ro", uri=True)) as ledger:
                return int(ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        except sqlite3.OperationalError:  # no file or no schema yet
            return 0
