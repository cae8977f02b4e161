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
from posenc.workbench.files import PARTIAL, cache, lock


def cached(key: str, make: Callable[[Path], None]) -> Path:
    """The folder of this key, which ``make`` fills if it is not there.

    Other processes wait meanwhile, and one that is killed leaves nothing that is read.

    Raises:
        StudyError: the folder cannot be written.
    """
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    if (folder := cache("texts") / name).is_dir():
        return folder
    home = _home()
    folder, partial = home / name, home / f"{name}{PARTIAL}"
    try:
        with lock(home / f"{name}.lock", wait=True):
            if folder.is_dir():
                return folder
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            try:
                partial.mkdir()
                make(partial)
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except (OSError, sqlite3.Error) as error:
        raise StudyError(
            f"tokens of a text cannot be written to {str(home)!r} ({error}); make room there, or set POSENC_CACHE "
            "to another folder"
        ) from error
    return folder


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
