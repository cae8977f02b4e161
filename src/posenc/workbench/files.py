"""Files that are whole or not there, whoever is killed while he writes them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
"""How the name of a file ends that is still being written."""


@contextmanager
def whole(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """Inside is the name to write to; behind it the file is ``path``, at once for whoever reads it.

    What is raised inside leaves ``path`` as it was. ``mode`` is that of folders that have to be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=mode)
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def sweep(folder: Path, stem: str) -> None:
    """Remove what killed processes left half-written of files that begin like this."""
    for partial in folder.glob(f"{stem}*{PARTIAL}"):
        partial.unlink(missing_ok=True)
