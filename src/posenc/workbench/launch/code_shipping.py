"""Ships custom modules: read on the driver's machine, written on a worker's."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.workbench.files import write_atomically


@dataclass(frozen=True)
class Item:
    """One file: the folder that it is named from, its name below that, its hash, and a reference to its bytes."""

    folder: Path
    name: str
    sha256: str
    data: Any


def pack(path: Path, put: Callable[[bytes], Any]) -> tuple[Item, ...]:
    """A file, or the sources of a package; ``put`` takes bytes and returns a reference to them."""
    items = []
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        data = file.read_bytes()
        name = file.relative_to(path.parent).as_posix()
        items.append(Item(path.parent, name, hashlib.sha256(data).hexdigest(), put(data)))
    return tuple(items)


def unpack(items: tuple[Item, ...], get: Callable[[Any], bytes]) -> tuple[Path, ...]:
    """Write them into the user's temporary folder, one folder for each folder; returns the files and packages.

    They are imported, so that a temporary folder that others may write to is passed over for a new one.
    """
    root = Path(tempfile.gettempdir()) / f"posenc-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    status = root.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:  # a link has 0o777
        root = Path(tempfile.mkdtemp(prefix="posenc-"))
    modules: dict[Path, None] = {}
    for folder in dict.fromkeys(item.folder for item in items):
        inside = [item for item in items if item.folder == folder]
        contents = "\n".join(f"{item.name} {item.sha256}" for item in inside)
        target = root / hashlib.sha256(contents.encode()).hexdigest()[:24]
        for item in inside:
            _write(target / item.name, item, get)
            modules[target / Path(item.name).parts[0]] = None
    return tuple(modules)


def _write(target: Path, item: Item, get: Callable[[Any], bytes]) -> None:
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == item.sha256:
        return
    with write_atomically(target, mode=0o700) as partial:
        partial.write_bytes(get(item.data))
