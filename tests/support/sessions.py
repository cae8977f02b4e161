"""Fixtures of tests with ledgers: who opens an SQLite file closes it, and one ledger a folder."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench.run.ledger import Ledger


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Files of the SQLite connections that are open now; a test that leaves one open fails, on every Python."""
    still_open: list[str] = []

    class Watched(sqlite3.Connection):
        def __init__(self, database: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(database, *args, **kwargs)
            self.said = str(database)
            still_open.append(self.said)

        def close(self) -> None:
            super().close()
            if self.said in still_open:  # closing twice is allowed
                still_open.remove(self.said)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: connect(*args, factory=Watched, **kwargs))
    yield still_open
    assert still_open == []


@pytest.fixture
def ledgers() -> Iterator[Callable[[Path], Ledger]]:
    """The ledger of a folder, as often as a test asks for it; closed when it ends."""
    with ExitStack() as opened:
        yield cache(lambda folder: opened.enter_context(Ledger(folder, write=True)))
