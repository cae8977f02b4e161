"""Scores of documents under methods in SQLite, one transaction each: a killed run goes on where it was."""

import hashlib
import json
import sqlite3
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from posenc.errors import StudyError

SCHEMA = """
CREATE TABLE IF NOT EXISTS scores (
    id TEXT PRIMARY KEY, job TEXT NOT NULL, losses TEXT NOT NULL, seconds REAL NOT NULL
)
"""


@dataclass(frozen=True)
class Job:
    """One document under one method: everything that decides its losses.

    Args:
        model: identity of the weights, fine-tuning included.
        method: the method's name; ``"window"`` is the unscaled model on the last trained length alone,
            ``"needle …"`` a haystack read under a method.
        schedule: the schedule's values as JSON, so that another factor is another job.
        text_sha256: of the text that documents are cut from, and of what is hidden in it.
        document: its number.
        length: targets scored, the document's tokens but one.
        buckets: parts that the losses are averaged in, or needles that are asked for.
        dtype: of weights and activations.
    """

    model: str
    method: str
    schedule: str
    text_sha256: str
    document: int
    length: int
    buckets: int
    dtype: str

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


class Scores:
    """The scores kept in ``FOLDER/scores.sqlite``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with ExitStack() as opened:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._db = sqlite3.connect(folder / "scores.sqlite", isolation_level=None)
                opened.callback(self._db.close)
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute(SCHEMA)
            except (OSError, sqlite3.DatabaseError) as error:
                raise StudyError(
                    f"{str(folder)!r} cannot hold scores ({error}); choose another --output"
                ) from error
            opened.pop_all()  # whole: from here on close() lets go of it

    def get(self, job: Job) -> tuple[float, ...] | None:
        """The losses by bucket of a job that is done."""
        row = self._db.execute("SELECT losses FROM scores WHERE id = ?", (job.id,)).fetchone()
        return tuple(json.loads(row[0])) if row else None

    def add(self, job: Job, losses: tuple[float, ...], seconds: float) -> None:
        """Keep a job's losses."""
        values = (job.id, json.dumps(asdict(job), sort_keys=True), json.dumps(losses), seconds)
        try:
            self._db.execute("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?)", values)
        except sqlite3.DatabaseError as error:
            raise StudyError(
                f"{str(self.folder)!r}: {error}; scores so far are kept, run the command again"
            ) from error

    def seconds(self) -> float:
        """What the scores took to compute."""
        return float(self._db.execute("SELECT coalesce(sum(seconds), 0) FROM scores").fetchone()[0])

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> "Scores":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
