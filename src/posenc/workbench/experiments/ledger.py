"""The ledger: finished runs in SQLite, one transaction a run, so that a killed study loses only what was under way.

Schema, version 1:

    meta   key, value                                  schema version, and what created the ledger
    runs   id, plan, seconds, parameters, final_loss, created, versions, hardware     one row a plan's hash
    cells  run, length, measure, value, count, detail, note                           the run's numbers
"""

import csv
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from posenc.errors import StudyError
from posenc.workbench.experiments.machine import hardware, versions
from posenc.workbench.experiments.plan import Cell, Plan, Run

VERSION = 1
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (
    id TEXT PRIMARY KEY, plan TEXT NOT NULL, seconds REAL NOT NULL, parameters INTEGER NOT NULL,
    final_loss REAL NOT NULL, created TEXT NOT NULL, versions TEXT NOT NULL, hardware TEXT NOT NULL
);
CREATE TABLE cells (
    run TEXT NOT NULL REFERENCES runs(id), length INTEGER NOT NULL, measure TEXT NOT NULL, value REAL,
    count INTEGER NOT NULL, detail TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (run, length, measure)
);
"""


class Ledger:
    """The runs of one study, in ``FOLDER/ledger.sqlite``.

    Args:
        folder: of the study; created when missing.
        write: whether runs will be added. Only one process may hold a ledger for writing.

    Raises:
        StudyError: the folder or file cannot be used, was made by a newer posenc, or is held by another process.
    """

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.folder = folder
        self.path = folder / "ledger.sqlite"
        if not write and not self.path.exists():
            raise self._none()
        with ExitStack() as opened, self._explained():
            if write:
                folder.mkdir(parents=True, exist_ok=True)
                opened.callback(self._hold().close)
            # A reader creates nothing; "rw" without its writes, as "ro" would leave SQLite's own files behind.
            address = f"{self.path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
            self._db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            opened.callback(self._db.close)
            if write:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
            else:
                self._db.execute("PRAGMA query_only = ON")
            self._open(write)
            self._opened = opened.pop_all()  # whole: from here on close() lets go of it

    def add(self, run: Run) -> None:
        """Keep a finished run: all of it in one transaction, or nothing."""
        plan = run.plan
        head = (plan.id, plan.to_json(), run.seconds, run.parameters, run.final_loss)
        made = (datetime.now(UTC).isoformat(timespec="seconds"), versions(), hardware(plan.device))
        cells = [(plan.id, c.length, c.measure, c.value, c.count, json.dumps(c.detail), c.note) for c in run.cells]
        with self._explained(), self._transaction():
            self._db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*head, *made))
            self._db.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?)", cells)

    def ids(self) -> set[str]:
        """The ids of the plans that are done."""
        return {row[0] for row in self._db.execute("SELECT id FROM runs")}

    def runs(self, ids: Iterable[str] | None = None) -> list[Run]:
        """Finished runs in the order of their creation; all, or those of the given plans."""
        wanted = None if ids is None else set(ids)
        rows = self._db.execute("SELECT * FROM runs ORDER BY created, id").fetchall()
        return [self._run(row) for row in rows if wanted is None or row[0] in wanted]

    def export(self, path: Path) -> int:
        """Write one CSV row per measured number; returns how many."""
        rows = [
            (p.task, p.encoding, p.seed, c.length, c.measure, c.value, c.count, c.note, p.id)
            for p, cells in ((run.plan, run.cells) for run in self.runs())
            for c in cells
        ]
        with self._explained(), path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["task", "encoding", "seed", "length", "measure", "value", "count", "note", "run"])
            writer.writerows(rows)
        return len(rows)

    def close(self) -> None:
        """Let go of the file, so that another process may write."""
        self._opened.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, row: tuple[str, str, float, int, float, str, str, str]) -> Run:
        columns = "length, measure, value, count, detail, note"
        cells = self._db.execute(f"SELECT {columns} FROM cells WHERE run = ? ORDER BY rowid", (row[0],))
        return Run(
            Plan.from_json(row[1]),
            tuple(
                Cell(
                    length,
                    measure,
                    math.nan if value is None else value,
                    count,
                    tuple(json.loads(detail)),
                    note,
                )
                for length, measure, value, count, detail, note in cells
            ),
            *row[2:],
        )

    def _hold(self) -> sqlite3.Connection:
        """Take the study's lock; the operating system lets go of it however this process ends."""
        lock = sqlite3.connect(self.folder / "lock.sqlite", isolation_level=None, timeout=0)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            raise StudyError(
                f"another process is writing to {str(self.folder)!r}; wait for it, or choose another --output"
            ) from error
        return lock

    def _open(self, write: bool) -> None:
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            if not write:
                raise self._none()
            with self._transaction():
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO meta VALUES ('version', ?)", (str(VERSION),))
            return
        version = int(self._db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()[0])
        if version > VERSION:
            raise StudyError(
                f"{str(self.path)!r} has ledger version {version} and this posenc reads {VERSION}; upgrade posenc, "
                "or choose another --output"
            )

    def _none(self) -> StudyError:
        return StudyError(f"no ledger in {str(self.folder)!r}; posenc compare --output {self.folder} starts one")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has already rolled back
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into a sentence with a next step."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            said = str(error)
            fix = {
                "full": "free some space and run the same command: finished runs are kept",
                "not a database": "the file is damaged or no ledger; choose another --output",
                "readonly": "the folder cannot be written; choose another --output",
            }
            step = next((text for key, text in fix.items() if key in said), "choose another --output")
            raise StudyError(f"{str(self.path)!r}: {said}; {step}") from error
        except OSError as error:
            raise StudyError(f"{str(self.folder)!r}: {error.strerror}; choose another --output") from error
