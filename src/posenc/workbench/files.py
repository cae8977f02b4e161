"""Atomic writes (so that a killed process leaves no half-written file), locks and JSON."""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
"""The suffix of a file that is still being written."""


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. At the end of the block, the file is renamed to ``path`` atomically.

    An error inside the block leaves ``path`` unchanged. Missing folders are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write each string to a file in ``folder`` atomically. The key of each string is the name of its file.

    If a string contains a path that is not valid UTF-8, the path's invalid bytes are written as "?".
    """
    for name, text in texts.items():
        with write_atomically(folder / name) as partial:
            partial.write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold a lock on the file ``path`` inside the block. The operating system releases the lock if this process
    dies.

    Raises:
        sqlite3.OperationalError: another process holds the lock and ``wait`` is False, or the file cannot be
        opened.
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


def as_json(value: object, indent: int | None = None) -> str:
    """Return the value as JSON, with null for NaN and infinity, which JSON lacks."""
    finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
    return json.dumps(finite, indent=indent, ensure_ascii=False)
