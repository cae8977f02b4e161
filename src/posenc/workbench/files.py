"""Files written atomically, so that a killed process leaves no half of one; locks, caches and JSON."""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from posenc.errors import StudyError

PARTIAL = ".partial"
"""The suffix of a file that is still being written."""


def cache(kind: str) -> Path:
    """A folder of ``$POSENC_CACHE``, or of posenc's part of the user's cache; no link on the way."""
    home = os.environ.get("POSENC_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "posenc"
    return Path(home).expanduser().resolve() / kind


def refuse_address(folder: Path) -> None:
    """Raise for what a path makes of ``s3://bucket/study``.

    Raises:
        StudyError: says how to bring a study from there.
    """
    if folder.parts and folder.parts[0].endswith(":"):
        raise StudyError(f"{str(folder)!r} is an address; copy what lies there into a folder first")


@contextmanager
def write_atomically(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """A name to write to; at the end of the block that file becomes ``path``, for every reader at once.

    An error inside the block leaves ``path`` as it was. ``mode`` is that of folders that have to be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=mode)
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files by name, each for every reader at once."""
    for name, text in texts.items():
        with write_atomically(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")


@contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold a lock, which the operating system releases however this process ends.

    Raises:
        sqlite3.OperationalError: another process holds it, unless this one waits; or the file cannot be opened.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=1.0 if wait else 0.0)
    try:
        while True:
            try:
                connection.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError as error:
                if not wait or error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
        yield
    finally:
        connection.close()


def sweep(folder: Path, stem: str) -> None:
    """Remove the half-written files that killed processes left, of names that begin like this."""
    for partial in folder.glob(f"{stem}*{PARTIAL}"):
        partial.unlink(missing_ok=True)


def as_json(value: object, indent: int | None = None) -> str:
    """As JSON, which has no NaN and no infinity: both are null."""
    finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
    return json.dumps(finite, indent=indent, ensure_ascii=False)
