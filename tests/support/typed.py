"""A study in a folder of its own, carried out by the command line: begun, watched from outside, and ended."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from support.studies import numbers


class Typed:
    """A study as it is typed.

    Args:
        folder: of the study.
        config: its TOML file; the command is typed where that lies.
        words: what else is typed every time.
    """

    def __init__(self, folder: Path, config: Path, *words: str) -> None:
        self.folder, self.config, self.words = folder, config, words

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Type it; the process leads a group of its own."""
        command = [sys.executable, "-m", "posenc", "compare", "--config", str(self.config), *self.words, *words]
        where = {"cwd": self.config.parent, "start_new_session": True, "stdout": subprocess.DEVNULL}
        return subprocess.Popen([*command, "--output", str(self.folder)], **where)  # type: ignore[call-overload,no-any-return]

    def started(self, ready: Callable[[], bool], *words: str) -> subprocess.Popen[bytes]:
        """Type it and wait until it is ready, being still at work."""
        process = self.start(*words)
        while process.poll() is None and not ready():
            time.sleep(0.01)
        assert process.poll() is None, "it ended before that"
        return process

    def finish(self, *words: str) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
        """Type it and wait for its end; every number of the ledger."""
        assert self.start(*words).wait() == 0
        return numbers(self.folder)

    def rows(self, table: str = "runs") -> int:
        """Of a table of the ledger, read beside the process that writes it."""
        try:
            with closing(sqlite3.connect(f"file:{self.folder / 'ledger.sqlite'}?mode=ro", uri=True)) as ledger:
                return int(ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        except sqlite3.OperationalError:  # no file or no schema yet
            return 0
