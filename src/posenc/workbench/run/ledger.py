"""The ledger, an SQLite file of finished runs. A killed study keeps these runs, and resumes its unfinished ones.

Schema, version 3:

    meta   key, value                                  the schema version
    runs   id, plan, seconds, parameters, final_loss, created, versions, hardware, verdict    one row per plan id
    cells  run, length, measure, value, count, detail, note    the fields of ``Cell``, one row per cell
    steps  run, first, losses, tokens, seconds, norms, validation    one row per progress report, also of unfinished
                                                       runs: the number of its first step, the losses of its steps
                                                       (float32), the tokens read and the time taken, gradient norms
                                                       (float32), and pairs (step, validation loss) (float64)

Views for any program that reads SQLite (a change of a view does not change the schema version):

    settings   one row per finished run, with task, encoding, seed, cost, result, and all settings of its plan
    numbers    one row per cell of a finished run, without its detail, and with the run's task, encoding and seed
"""

import json
import math
import shutil
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime
from itertools import chain, starmap, zip_longest
from os import W_OK, access
from pathlib import Path
from typing import Any

from posenc.errors import PosencError, StudyError
from posenc.workbench.files import as_json, lock, write_atomically
from posenc.workbench.run.checkpoint import FILES, FOLDER
from posenc.workbench.run.job import Progress
from posenc.workbench.run.plan import Cell, Identified, LossCurve, Plan, Run

VERSION = 3
RUNS = "id, plan, seconds, parameters, final_loss, versions, hardware, verdict, created"
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, plan TEXT NOT NULL, seconds REAL NOT NULL, parameters INTEGER NOT NULL,
    final_loss REAL NOT NULL, created TEXT NOT NULL, versions TEXT NOT NULL, hardware TEXT NOT NULL,
    verdict TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS cells (
    run TEXT NOT NULL REFERENCES runs(id), length INTEGER NOT NULL, measure TEXT NOT NULL, value REAL,
    count INTEGER NOT NULL, detail TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (run, length, measure)
);
CREATE TABLE IF NOT EXISTS steps (
    run TEXT NOT NULL, first INTEGER NOT NULL, losses BLOB NOT NULL, tokens INTEGER NOT NULL, seconds REAL NOT NULL,
    norms BLOB NOT NULL, validation BLOB NOT NULL, PRIMARY KEY (run, first)
);
INSERT OR IGNORE INTO meta VALUES ('version', '{VERSION}')
"""
MERGE = f"""
DELETE FROM steps WHERE run IN (SELECT id FROM other.runs) AND run NOT IN (SELECT id FROM runs);
INSERT INTO steps SELECT * FROM other.steps WHERE run NOT IN (SELECT run FROM steps);
INSERT INTO cells SELECT * FROM other.cells WHERE run IN (SELECT value FROM json_each(:new)) ORDER BY rowid;
INSERT INTO runs ({RUNS})
SELECT {RUNS} FROM other.runs WHERE id IN (SELECT value FROM json_each(:new)) ORDER BY rowid
"""
"""The statements that copy from another ledger the runs in the JSON list ``new`` and unfinished runs' losses."""
FIRST = ("task", "encoding", "seed")
"""The settings that come before a run's cost and result in the view ``settings``, in the order of ``Plan``."""


def _column(setting: Field[Any]) -> str:
    """Return the SQL for one setting of a plan. Runs that are older than the setting have its default value."""
    default = json.dumps(None if setting.default is MISSING else setting.default)
    stored = f"json_extract(plan, '$.{setting.name}')"
    return f"coalesce({stored}, json_extract('{default}', '$')) AS \"{setting.name}\""


VIEWS = {
    "settings": f"""
SELECT id AS run, {", ".join(_column(each) for each in fields(Plan) if each.name in FIRST)},
    runs.seconds, parameters, final_loss, verdict,
    (SELECT sum(tokens) / nullif(sum(steps.seconds), 0) FROM steps WHERE run = id) AS tokens_per_second,
    {", ".join(_column(each) for each in fields(Plan) if each.name not in FIRST)}, created, versions, hardware
FROM runs WHERE json_extract(plan, '$.kind') = '{Plan.kind}' ORDER BY created, rowid""",
    "numbers": """
SELECT run, task, encoding, seed, length, measure, value, count, note
FROM settings JOIN cells USING (run) ORDER BY created, settings.run, cells.rowid""",
}


class Ledger(AbstractContextManager["Ledger"]):
    """The runs of one study, stored in ``ledger.sqlite`` in its folder.

    Args:
        folder: the study's folder. With ``write``, a missing folder is created; it is deleted if a ``PosencError``
            then ends the study before any run has reported a loss.
        write: whether to open the ledger for writing, which only one process at a time may do.

    Raises:
        StudyError: the folder or file cannot be used, the file has another schema version, or another process is
            writing to it.
    """

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        if folder.parts and folder.parts[0].endswith(":"):
            raise StudyError(f"{str(folder)!r} is a URL, not a folder; copy its files into a local folder first")
        self.folder = folder
        self.path = folder / "ledger.sqlite"
        if not write and not (self.path.exists() and self.path.stat().st_size):
            raise StudyError(f"no ledger in {str(folder)!r}; create it with: posenc compare --output {folder}")
        self.new = write and not folder.exists()
        with ExitStack() as opened, self._explained():
            if write:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock(opened)
            self.address = f"{self.path.absolute().as_uri()}?{'mode=rwc' if write else self._reading()}"
            self._db = sqlite3.connect(self.address, uri=True, isolation_level=None, check_same_thread=False)
            opened.callback(self._db.close)
            if write:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
            self._prepare(write)
            self._opened = opened.pop_all()  # from here on close() closes both connections

    def _lock(self, opened: ExitStack) -> None:
        path = self.folder / "lock.sqlite"
        try:
            opened.enter_context(lock(path))
        except sqlite3.DatabaseError as error:
            problem = (
                f"another process is writing to {str(self.folder)!r}; wait for it"
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY
                else f"{str(path)!r} cannot be locked ({error}); delete this file, which has no results"
            )
            raise StudyError(f"{problem}, or use another folder") from error

    def add(self, run: Run) -> None:
        """Write a finished run in one transaction, and replace an earlier run of the same plan."""
        plan = run.plan
        row = (
            plan.id,
            plan.to_json(),
            run.seconds,
            run.parameters,
            run.final_loss,
            run.versions,
            run.hardware,
            run.verdict,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        cells = [(plan.id, c.length, c.measure, c.value, c.count, as_json(c.detail), c.note) for c in run.cells]
        with self._explained(), self._transaction():
            self._db.execute("DELETE FROM cells WHERE run = ?", (plan.id,))
            self._db.execute(f"INSERT OR REPLACE INTO runs ({RUNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._db.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?)", cells)

    def note(self, progress: Progress) -> None:
        """Write the losses of a running job. Losses that the job reports again replace earlier losses.

        A report that arrives after the run has finished is ignored.
        """
        if (
            not progress.curve.losses
            or self._db.execute("SELECT 1 FROM runs WHERE id = ?", (progress.run,)).fetchone()
        ):
            return
        curve = progress.curve
        losses, norms = (array("f", values).tobytes() for values in (curve.losses, curve.norms))
        pairs = array("d", chain.from_iterable(curve.validation)).tobytes()
        row = (progress.run, progress.first, losses, curve.tokens, curve.seconds, norms, pairs)
        with self._explained(), self._transaction():
            self._db.execute("DELETE FROM steps WHERE run = ? AND first >= ?", (progress.run, progress.first))
            self._db.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def merge(self, folder: Path) -> int:
        """Copy another folder's runs and weights, except runs that this study already has; return the number of
        copied runs.

        Losses and states of unfinished runs are copied too. No run is replaced. Weights are copied before runs. A
        run that finishes in the other folder during the merge is not copied until the next merge.
        """
        before = self.ids()
        with Ledger(folder) as other:  # refuses files that are not a ledger of this version
            address, new = other.address, other.ids() - before
            (problem,) = other._db.execute("PRAGMA quick_check(1)").fetchone()
        if problem != "ok":
            raise StudyError(
                f"{str(other.path)!r} is damaged: {problem.splitlines()[-1]}; restore the file from a backup, or "
                "leave this folder out of the merge"
            )
        if folder.resolve() == self.folder.resolve():  # a shell pattern may match this folder too
            return 0
        for file in (folder / FOLDER).glob("*"):
            target = self.folder / FOLDER / file.name
            if file.suffix in FILES and file.stem not in before and not target.exists():
                # a run that ends deletes its state
                with suppress(FileNotFoundError), write_atomically(target) as partial:
                    shutil.copyfile(file, partial)
        with self._explained():
            self._db.execute("ATTACH DATABASE ? AS other", (address,))
            with self._transaction():
                for statement in MERGE.split(";"):
                    self._db.execute(statement, {"new": json.dumps([*new])})
            self._db.execute("DETACH DATABASE other")
        return len(new)

    def curve(self, run: str) -> LossCurve:
        """Return the losses of the finished or running job with this plan id.

        Before the job's first report, the curve is empty.
        """
        rows = self._db.execute(
            "SELECT losses, norms, validation, tokens, seconds FROM steps WHERE run = ? ORDER BY first", (run,)
        ).fetchall()
        losses, norms, pairs = (array(kind, b"".join(row[i] for row in rows)) for i, kind in enumerate("ffd"))
        validation = tuple((int(step), loss) for step, loss in zip(pairs[::2], pairs[1::2], strict=True))
        tokens, seconds = (sum(row[i] for row in rows) for i in (3, 4))
        return LossCurve(tuple(losses), tokens, seconds, tuple(norms), validation)

    def rows(self, select: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Return the rows of a SELECT on the views ``settings`` and ``numbers`` or on the tables."""
        cursor = self._db.execute(select, values)
        return [dict(zip((name for name, *_ in cursor.description), row, strict=True)) for row in cursor]

    def steps(self, runs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the loss, the gradient norm and any validation loss of every training step of ``runs``.

        ``runs`` are rows of the view ``settings``.
        """
        for run in runs:
            curve = self.curve(run["run"])
            validation, which = dict(curve.validation), {name: run[name] for name in ("run", *FIRST)}
            for step, (loss, norm) in enumerate(zip_longest(curve.losses, curve.norms)):
                yield {
                    **which,
                    "step": step,
                    "loss": loss,
                    "gradient_norm": norm,
                    "validation_loss": validation.get(step),
                }

    def ids(self) -> set[str]:
        """Return the plan ids of all finished runs."""
        return {row[0] for row in self._db.execute("SELECT id FROM runs")}

    def runs(self, ids: Collection[str] | None = None) -> list[Run]:
        """Return finished runs in the order of their creation: all runs, or only the runs with these plan ids."""
        rows = self._db.execute(
            f"SELECT {RUNS} FROM runs WHERE json_extract(plan, '$.kind') = ? ORDER BY created, rowid", (Plan.kind,)
        ).fetchall()
        return [self._run(row) for row in rows if ids is None or row[0] in ids]

    def find(self, plan: Identified) -> Run | None:
        """Return the run of this plan, or None if the run has not finished."""
        row = self._db.execute(f"SELECT {RUNS} FROM runs WHERE id = ?", (plan.id,)).fetchone()
        return self._run(row, plan) if row else None

    def close(self) -> None:
        """Close the ledger, so that another process can write to it."""
        self._opened.close()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        refused = (
            self.new
            and isinstance(error, PosencError)
            and not self.rows("SELECT run FROM steps UNION SELECT id FROM runs")
        )
        self.close()
        if refused:
            shutil.rmtree(self.folder)
        if isinstance(error, sqlite3.DatabaseError):  # while reading
            with self._explained():
                raise error

    def _run(self, row: tuple[Any, ...], plan: Identified | None = None) -> Run:
        """Return the run in a row of the table ``runs``. Without ``plan``, the plan is restored from the row."""
        cells = self._db.execute(
            "SELECT length, measure, value, count, detail, note FROM cells WHERE run = ? ORDER BY rowid", (row[0],)
        )
        try:
            return Run(plan or Plan.from_json(row[1], row[0]), tuple(starmap(_cell, cells)), *row[2:-1])
        except (ValueError, TypeError, KeyError) as error:
            raise StudyError(
                f"{str(self.path)!r}: the run {row[0]} has an invalid value ({error}); restore the file from a "
                "backup, or use another folder"
            ) from error

    def _reading(self) -> str:
        """Return the SQLite open mode with which a reader leaves no auxiliary files behind.

        In a writable folder, the mode is "rw", because SQLite deletes its auxiliary files only in this mode; the
        ledger itself is not changed. In a read-only folder, such as an archive, the file is opened as immutable
        unless a killed writer has left a write-ahead log.
        """
        if access(self.folder, W_OK) and access(self.path, W_OK):
            return "mode=rw"
        left = self.path.with_name(f"{self.path.name}-wal")
        return "mode=ro" if left.exists() and left.stat().st_size else "mode=ro&immutable=1"

    def _prepare(self, write: bool) -> None:
        """Create missing tables, and replace the views. If ``write`` is False, create only temporary views.

        A ledger with another schema version is refused and not changed.
        """
        place = "main" if write else "temp"
        with self._transaction():
            for statement in SCHEMA.split(";") if write else ():
                self._db.execute(statement)
            versions = [version for (version,) in self._db.execute("SELECT value FROM meta WHERE key = 'version'")]
            if versions != [str(VERSION)]:
                raise StudyError(
                    f"{str(self.path)!r} has ledger version {', '.join(versions) or 'unknown'}, but this posenc "
                    f"reads version {VERSION}; use the version of posenc that wrote it, or another folder"
                )
            for name, select in VIEWS.items():
                self._db.execute(f"DROP VIEW IF EXISTS {place}.{name}")
                self._db.execute(f"CREATE VIEW {place}.{name} AS {select}")
        if not write:
            self._db.execute("PRAGMA query_only = ON")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if not self.path.exists():  # SQLite would continue writing to a deleted file
            raise StudyError(f"{str(self.path)!r} no longer exists; restore the folder, or use another folder")
        with self._db:  # commits, or rolls back
            self._db.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Replace SQLite and file-system errors with a StudyError that says what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            message = str(error)
            fix = {
                "full": "free some space and run the same command again; finished runs are kept",
                "not a database": "the file is damaged or not a ledger; use another folder",
                "malformed": "the file is damaged; restore it from a backup, or use another folder",
                "readonly": "the folder is not writable; use another folder",
            }
            step = next((text for key, text in fix.items() if key in message), "use another folder")
            raise StudyError(f"{str(self.path)!r}: {message}; {step}") from error
        except OSError as error:
            raise StudyError(f"{str(self.folder)!r}: {error.strerror}; use another folder") from error


def _cell(length: int, measure: str, value: float | None, count: int, detail: str, note: str) -> Cell:
    """Create a cell from a row of the table ``cells``, in which null stands for NaN."""
    number, *others = (math.nan if each is None else float(each) for each in (value, *json.loads(detail)))
    return Cell(length, measure, number, count, tuple(others), note)
