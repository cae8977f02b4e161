"""Folders that are made once, by whichever process comes first, and can be deleted at any time."""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc.errors import StudyError
from posenc.workbench.files import PARTIAL, cache, lock, write_atomically


def cached(key: str, make: Callable[[Path], str]) -> Path:
    """The folder of this key.

    A record under the key names the folder, so that a key that is known costs one look. ``make`` fills an empty
    folder and names it by its content; where a folder of that name is there already, what it has filled is dropped.
    Other processes wait meanwhile, and one that is killed leaves nothing that is read.

    Raises:
        StudyError: the folder cannot be written.
    """
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    for home in (cache("texts"), _home()):
        if (folder := _recorded(home / name)) is not None:
            return folder
    record, partial = home / name, home / f"{name}{PARTIAL}"
    try:
        with lock(home / f"{name}.lock", wait=True):
            if (folder := _recorded(record)) is not None:
                return folder
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            try:
                partial.mkdir()
                folder = home / make(partial)
                if not folder.exists():
                    partial.rename(folder)
                with write_atomically(record) as file:
                    file.write_text(folder.name)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except (OSError, sqlite3.Error) as error:
        raise StudyError(
            f"tokens of a text cannot be written to {str(home)!r} ({error}); make room there, or set POSENC_CACHE "
            "to another folder"
        ) from error
    return folder


def _recorded(record: Path) -> Path | None:
    """The folder that this record names, if both are there."""
    try:
        folder = record.with_name(record.read_text())
    except OSError:
        return None
    return folder if folder.is_dir() else None


def _home() -> Path:
    """The cache's folder for texts; one for this process alone where it cannot be written."""
    home = cache("texts")
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(_temporary().name)
    return home if os.access(home, os.W_OK) else Path(_temporary().name)


@lru_cache(maxsize=1)
def _temporary() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="posenc-texts-")
