"""Files that are whole or not there, whoever is killed while he writes them; and what has changed among them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from posenc.kernels.native import folder

PARTIAL = ".partial"
"""How the name of a file ends that is still being written."""


def cache(kind: str) -> Path:
    """Where such files are kept: this folder of that in which native kernels are kept, too."""
    return folder() / kind


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


class Changes:
    """What becomes of files that others write.

    Args:
        look: the files that there are now, by name.
        seen: of those that are known already, what ``stamp`` said of them.
    """

    def __init__(self, look: Callable[[], dict[str, Path]], seen: dict[str, list[int]]) -> None:
        self.look, self.seen = look, seen

    def since(self) -> Iterator[tuple[str, Path | None]]:
        """Those that are new or other than they were, by name, and None for those that are gone.

        Each is known from the moment on that the next is asked for: what was raised meanwhile leaves it unknown.
        """
        here = self.look()
        for name, file in here.items():
            with suppress(FileNotFoundError):  # whoever writes may have let go of it just now
                now = stamp(file)
                if self.seen.get(name) != now:
                    yield name, file
                    self.seen[name] = now
        for name in self.seen.keys() - here.keys():
            yield name, None
            del self.seen[name]


def stamp(file: Path) -> list[int]:
    """What changes whenever the file is replaced."""
    status = file.stat()
    return [status.st_ino, status.st_mtime_ns]
