"""Work for launchers, of plain Python: it counts, dies, fails, and says where it ran."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from posenc.errors import UnknownName
from posenc.workbench.launch.job import Desk, Job, Needs


@dataclass(frozen=True)
class Count:
    """Adds the steps up, keeping its place; returns the sum and where it began."""

    name: str
    steps: int
    pause: float = 0
    dies_at: int = -1

    def __call__(self, desk: Desk) -> tuple[int, int]:
        first, total = map(int, (desk.read(self.name) or b"0 0").split())
        for step in range(first, self.steps):
            if step == self.dies_at and first == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            total += step
            desk.report(1, (float(step),))
            desk.keep(self.name, b"%d %d" % (step + 1, total))
            time.sleep(self.pause)
        return total, first


@dataclass(frozen=True)
class Raise:
    """Raises what cannot be made again from its message, or what can."""

    kind: str

    def __call__(self, desk: Desk) -> None:
        if self.kind == "ours":
            raise UnknownName("thing", "on", ["one"])
        if self.kind == "memory":
            import torch

            raise torch.OutOfMemoryError("CUDA out of memory")
        if self.kind == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        raise StubbornError(1, 2)


class StubbornError(Exception):
    """Needs two arguments and so cannot be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@dataclass(frozen=True)
class Place:
    """Reads a file of the driver's, imports a module of its own, and says what it sees."""

    file: Path

    def __call__(self, desk: Desk) -> dict[str, object]:
        import one_of_my_own  # type: ignore[import-not-found]
        import torch

        return {
            "read": desk.path(self.file).read_text(),
            "module": one_of_my_own.VALUE,
            "devices": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            "threads": torch.get_num_threads(),
            "pid": os.getpid(),
        }


def counting(name: str, steps: int, pause: float = 0, dies_at: int = -1, needs: Needs = Needs()) -> Job:  # noqa: B008
    return Job(name, name, Count(name, steps, pause, dies_at), needs, resumes=(name,))


def failing(kind: str) -> Job:
    return Job(kind, kind, Raise(kind))


def placed(folder: Path, name: str, needs: Needs) -> Job:
    """A job with a file and a module that lie in ``folder``."""
    (folder / "text.txt").write_text("read me")
    (folder / "one_of_my_own.py").write_text("import beside_it\nVALUE = beside_it.VALUE\n")
    (folder / "beside_it.py").write_text("VALUE = 7\n")
    modules = (folder / "one_of_my_own.py", folder / "beside_it.py")
    return Job(name, name, Place(folder / "text.txt"), needs, files=(folder / "text.txt",), modules=modules)


REASONS = {
    "ours": "unknown thing 'on'; did you mean 'one'? known: one",
    "memory": "OutOfMemoryError: CUDA out of memory",
    "stubborn": "StubbornError: 1 and 2",
}
