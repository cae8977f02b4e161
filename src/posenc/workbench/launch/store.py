"""The store: files of a study by name, in a folder or wherever fsspec can write, each whole or not there."""

import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from posenc.errors import StudyError


@dataclass(frozen=True)
class Store:
    """Files under one place.

    Args:
        place: a folder, or an address such as ``s3://bucket/study`` whose package (here s3fs) is installed.

    Raises:
        StudyError: nothing can write there.
    """

    place: str

    @classmethod
    def at(cls, place: "Path | str") -> "Store":
        """The store at a folder or an address; a folder means the same wherever the working directory is."""
        text = str(place)
        return cls(text if "://" in text else str(Path(text).absolute()))

    def read(self, name: str) -> bytes | None:
        """The file of this name, or None."""
        system, root = self._system()
        try:
            return bytes(system.cat_file(f"{root}/{name}"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._explained("read", name, error) from error

    def write(self, name: str, data: bytes) -> None:
        """Write under another name and move: whoever reads finds the old file or the new one."""
        system, root = self._system()
        target = f"{root}/{name}"
        partial = f"{target}.partial"
        try:
            system.makedirs(posixpath.dirname(target), exist_ok=True)
            system.pipe_file(partial, data)
            if self.path(name) is None:
                system.mv(partial, target)
            else:
                Path(partial).replace(target)
        except OSError as error:
            raise self._explained("written", name, error) from error

    def remove(self, name: str) -> None:
        """Let go of a file, if it is there."""
        system, root = self._system()
        try:
            system.rm_file(f"{root}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._explained("removed", name, error) from error

    def path(self, name: str) -> Path | None:
        """Where the file lies in a folder of this machine; None where the store is none."""
        return None if "://" in self.place else Path(self.place) / name

    def _system(self) -> tuple[Any, str]:
        try:
            system, root = fsspec.core.url_to_fs(self.place)
        except ImportError as error:
            raise StudyError(f"{self.place!r} cannot be reached: {error}") from error
        except ValueError as error:
            raise StudyError(f"{self.place!r} is no place that fsspec knows ({error}); pass a folder") from error
        return system, str(root).rstrip("/")

    def _explained(self, done: str, name: str, error: OSError) -> StudyError:
        said = error.strerror or str(error) or type(error).__name__
        return StudyError(
            f"{name!r} cannot be {done} in {self.place!r}: {said}; make room or mend it, and run the same command"
        )
