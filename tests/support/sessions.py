"""Fixtures for tests with ledgers, which check that SQLite files are closed, and train one study for all tests."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench.report.write import write
from posenc.workbench.run.ledger import Ledger
from support.studies import SHARED, ran


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files of open SQLite connections. A test fails in any version of Python if it leaves one open."""
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
    """A function that returns the same ledger for a folder in every call; ledgers close when the test ends."""
    with ExitStack() as opened:
        yield cache(lambda folder: opened.enter_context(Ledger(folder, write=True)))


@pytest.fixture(scope="session")
def shared_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study ``SHARED`` with its page, for tests that only read this folder or change a copy."""
    folder = tmp_path_factory.mktemp("shared")
    write(ran(SHARED, folder), folder, "posenc compare --config <tiny>", SHARED)
    return folder


@pytest.fixture
def copied_study(shared_study: Path, tmp_path: Path) -> Path:
    return shutil.copytree(shared_study, tmp_path / "copied")
