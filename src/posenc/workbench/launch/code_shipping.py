"""A parcel: modules of one's own, read on the driver's machine and laid out again on another."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.workbench.files import whole


@dataclass(frozen=True)
class Item:
    """One file: the folder that it is named from, its name below that, and where its bytes are to be had."""

    folder: Path
    name: str
    sha256: str
    data: Any


def pack(path: Path, put: Callable[[bytes], Any]) -> tuple[Item, ...]:
    """A file, or the sources of a package; ``put`` takes bytes and says how they are had again."""
    items = []
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        data = file.read_bytes()
        name = file.relative_to(path.parent).as_posix()
        items.append(Item(path.parent, name, hashlib.sha256(data).hexdigest(), put(data)))
    return tuple(items)


def unpack(items: tuple[Item, ...], get: Callable[[Any], bytes]) -> tuple[Path, ...]:
    """Lay them out in the user's temporary folder, those of one folder in one; the files and packages there.

    Where a folder of that name may be written by others, a new one is made: what lies there is imported.
    """
    root = Path(tempfile.gettempdir()) / f"posenc-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    status = root.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:  # a link has 0o777
        root = Path(tempfile.mkdtemp(prefix="posenc-"))
    found: dict[Path, None] = {}
    for folder in dict.fromkeys(item.folder for item in items):
        inside = [item for item in items if item.folder == folder]
        said = "\n".join(f"{item.name} {item.sha256}" for item in inside)
        place = root / hashlib.sha256(said.encode()).hexdigest()[:24]
        for item in inside:
            _lay(place / item.name, item, get)
            found[place / Path(item.name).parts[0]] = None
    return tuple(found)


def _lay(target: Path, item: Item, get: Callable[[Any], bytes]) -> None:
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == item.sha256:
        return
    with whole(target, mode=0o700) as partial:
        partial.write_bytes(get(item.data))
