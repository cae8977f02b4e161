"""A parcel: files of the driver's machine, read there once and laid out again on another."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Item:
    """One file: the folder that it is named from, its name below that, and where its bytes are to be had."""

    folder: Path
    name: str
    sha256: str
    data: Any


def pack(paths: Iterable[Path], put: Callable[[bytes], Any]) -> tuple[Item, ...]:
    """Files, and all files of folders but caches; ``put`` takes the bytes and says how they are had again."""
    items = []
    for path in paths:
        below = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        for file in below if path.is_dir() else [path]:
            data = file.read_bytes()
            name = file.relative_to(path.parent).as_posix()
            items.append(Item(path.parent, name, hashlib.sha256(data).hexdigest(), put(data)))
    return tuple(items)


class Unpacked:
    """A parcel laid out in this machine's temporary folder, where other processes of the user find it again.

    Args:
        items: of the parcel; those of one folder lie in one folder again, so that modules find each other.
        get: gives the bytes of what ``put`` returned.
    """

    def __init__(self, items: tuple[Item, ...], get: Callable[[Any], bytes]) -> None:
        self.folders: dict[Path, Path] = {}
        root = Path(tempfile.gettempdir()) / f"posenc-{os.getuid()}"
        for folder in dict.fromkeys(item.folder for item in items):
            inside = [item for item in items if item.folder == folder]
            said = "\n".join(f"{item.name} {item.sha256}" for item in inside)
            self.folders[folder] = root / hashlib.sha256(said.encode()).hexdigest()[:24]
            for item in inside:
                _lay(self.folders[folder] / item.name, item, get)

    def path(self, file: Path) -> Path:
        """Where a file or folder of the driver's lies here."""
        return self.folders[file.parent] / file.name


def _lay(target: Path, item: Item, get: Callable[[Any], bytes]) -> None:
    """Write the file under a name of this process's own and move it: others see it whole."""
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == item.sha256:
        return
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    partial.write_bytes(get(item.data))
    partial.replace(target)
