"""A run far from its study: it works in a folder of its own, and yields what it says, keeps and finds."""

import pickle
import queue
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posenc.workbench.files import PARTIAL, Changes, stamp, whole
from posenc.workbench.launch.code_shipping import Item, unpack
from posenc.workbench.launch.determinism import installed, refuse_others
from posenc.workbench.run.job import attempt
from posenc.workbench.tasks.text import Source, Text

LOOK_EVERY = 1.0
"""Seconds between two looks at what a run has kept."""


@dataclass(frozen=True)
class Kept:
    """A file that a run keeps, as it is now; None where it is there no more."""

    name: str
    data: bytes | None

    def write(self, folder: Path) -> None:
        """Make it so in this folder; who reads meanwhile finds the old file or the new one."""
        file = folder / self.name
        if self.data is None:
            file.unlink(missing_ok=True)
            if file.parent != folder and file.parent.is_dir() and not any(file.parent.iterdir()):
                file.parent.rmdir()
            return
        with whole(file) as partial:
            partial.write_bytes(self.data)


def left(folder: Path, run: str = "") -> dict[str, Path]:
    """The files of a run in a folder, those in folders of their own among them, by their names below it.

    A folder counts once it has its ``.metadata``, which is written last, and comes last here.
    """
    flat = [file for file in folder.glob(f"{run}*") if file.is_file() and file.suffix != PARTIAL]
    deep = [file for whole in folder.glob(f"{run}*.dcp/.metadata") for file in (*whole.parent.glob("_*"), whole)]
    return {file.relative_to(folder).as_posix(): file for file in (*sorted(flat), *deep)}


@dataclass(frozen=True)
class Found:
    """The last thing that a run says: what came of it."""

    value: Any


@dataclass(frozen=True)
class Held(Source):
    """A text that was read elsewhere."""

    text: Text | None = None

    def load(self) -> Text:
        assert self.text is not None
        return self.text


def carry_out(
    driver: dict[str, str],
    cpus: int,
    job: bytes,
    text: list[Any],
    modules: tuple[Item, ...],
    kept: tuple[Kept, ...],
) -> Iterator[Any]:
    """On the worker: the run goes on a thread of its own, so that what it says is passed on meanwhile."""
    import ray
    import torch

    refuse_others(ray.util.get_node_ip_address(), driver, installed())  # it may have joined since all were asked
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="posenc-run-") as name:
        folder = Path(name)
        for file in kept:
            file.write(folder)
        changes = Changes(lambda: left(folder), {file.name: stamp(folder / file.name) for file in kept})

        def work() -> None:
            torch.set_num_threads(cpus)
            try:
                mine: Any = pickle.loads(job)
                moved = replace(
                    mine, folder=folder, source=Held(text=ray.get(text[0])), modules=unpack(modules, ray.get)
                )
            except BaseException as error:
                said.put(error)
            else:
                said.put(Found(attempt(moved, said.put)))

        threading.Thread(target=work, daemon=True).start()
        yield from _passed_on(said, changes)


def _passed_on(said: "queue.SimpleQueue[Any]", changes: Changes) -> Iterator[Any]:
    """All that is said, and files as they change; those of the end come before what was found.

    What was said before a file became what it is is passed on before the file: a run that goes on from it says the
    rest, and nothing between.
    """
    ended = False
    while not ended:
        heard = _heard(said, LOOK_EVERY)
        kept = list(_changed(changes))
        while said.qsize():
            heard += _heard(said, 0)
        for something in heard:
            if isinstance(something, BaseException):
                raise something
            if isinstance(something, Found):
                ended = True
                kept += _changed(changes)
                kept.append(something)
            else:
                yield something
        for something in kept:  # one by one: Ray sends into its generators, and a list takes nothing
            yield something


def _heard(said: "queue.SimpleQueue[Any]", wait: float) -> list[Any]:
    """The next thing that is said, if any is within ``wait`` seconds."""
    try:
        return [said.get(timeout=wait)]
    except queue.Empty:
        return []


def _changed(changes: Changes) -> Iterator[Any]:
    for name, file in changes.since():
        with suppress(FileNotFoundError):  # let go of just now: it is gone at the next look
            yield Kept(name, None if file is None else file.read_bytes())
