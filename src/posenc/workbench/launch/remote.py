"""A run on a machine of a cluster: in a temporary folder, yielding progress, changed files and a result."""

import pickle
import queue
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posenc.workbench.files import PARTIAL, write_atomically
from posenc.workbench.launch.code_shipping import Item, unpack
from posenc.workbench.launch.determinism import installed, refuse_others
from posenc.workbench.run.job import Failure, attempt
from posenc.workbench.run.plan import Run
from posenc.workbench.tasks.text import Source, Text

LOOK_EVERY = 1.0
"""Seconds between two looks at the files of a run."""


@dataclass(frozen=True)
class Changed:
    """A file of a run with its bytes of now; None where it has been removed."""

    name: str
    data: bytes | None

    def write(self, folder: Path) -> None:
        """Write or remove the file in this folder; readers find the old file or the new one."""
        file = folder / self.name
        if self.data is None:
            file.unlink(missing_ok=True)
            return
        with write_atomically(file) as partial:
            partial.write_bytes(self.data)


def listed(folder: Path, run: str = "") -> dict[str, Path]:
    """The files of a run in a folder, by their names."""
    return {file.name: file for file in sorted(folder.glob(f"{run}*")) if file.is_file() and file.suffix != PARTIAL}


@dataclass(frozen=True)
class LoadedSource(Source):
    """The source of a text that was loaded elsewhere."""

    text: Text | None = None

    def load(self, say: Callable[[str], object] = str) -> Text:
        assert self.text is not None
        return self.text


def run_remotely(
    driver: dict[str, str],
    cpus: int,
    job: bytes,
    text: list[Any],
    modules: tuple[Item, ...],
    files: tuple[Changed, ...],
) -> Iterator[Any]:
    """On the worker: the run has a thread of its own, so that its messages are passed on meanwhile."""
    import ray
    import torch

    refuse_others(ray.util.get_node_ip_address(), driver, installed())  # it may have joined since all were asked
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="posenc-run-") as name:
        folder = Path(name)
        for file in files:
            file.write(folder)
        known = {file.name: stamp(folder / file.name) for file in files}

        def work() -> None:
            torch.set_num_threads(cpus)
            try:
                sent: Any = pickle.loads(job)
                source = LoadedSource(text=ray.get(text[0]))
                moved = replace(sent, folder=folder, source=source, modules=unpack(modules, ray.get))
            except BaseException as error:
                messages.put(error)
            else:
                messages.put(attempt(moved, messages.put))

        threading.Thread(target=work, daemon=True).start()
        yield from _passed_on(messages, folder, known)


def _passed_on(messages: "queue.SimpleQueue[Any]", folder: Path, known: dict[str, list[int]]) -> Iterator[Any]:
    """All messages, and files as they change; the last files come before the last message, a run or a failure.

    Progress made before a file was written is passed on before the file: a run that continues from that state
    reports the rest, and nothing twice.
    """
    ended = False
    while not ended:
        batch = _next(messages, LOOK_EVERY)
        files = list(_changed(folder, known))
        while messages.qsize():
            batch += _next(messages, 0)
        for message in batch:
            if isinstance(message, BaseException):
                raise message
            if isinstance(message, Run | Failure):
                ended = True
                files += _changed(folder, known)
                files.append(message)
            else:
                yield message
        for file in files:  # noqa: UP028 - Ray sends into its generators, and a list takes nothing
            yield file


def _next(messages: "queue.SimpleQueue[Any]", wait: float) -> list[Any]:
    """The next message, if one comes within ``wait`` seconds."""
    try:
        return [messages.get(timeout=wait)]
    except queue.Empty:
        return []


def _changed(folder: Path, known: dict[str, list[int]]) -> Iterator[Any]:
    """Files that are new, changed or gone since they were ``known``, by their stamps."""
    files = listed(folder)
    for name, file in files.items():
        with suppress(FileNotFoundError):  # removed just now: the next look finds it gone
            now = stamp(file)
            if known.get(name) != now:
                yield Changed(name, file.read_bytes())
                known[name] = now
    for name in known.keys() - files.keys():
        yield Changed(name, None)
        del known[name]


def stamp(file: Path) -> list[int]:
    """Numbers that change whenever the file is replaced."""
    status = file.stat()
    return [status.st_ino, status.st_mtime_ns]
