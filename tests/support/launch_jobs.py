"""Jobs in plain Python for tests of launchers, which count, die, fail, or record where they run."""

import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from posenc.errors import UnknownName
from posenc.workbench.files import write_atomically
from posenc.workbench.run.job import Failure, Job, Progress, Report
from posenc.workbench.run.plan import Identified, LossCurve, Run
from posenc.workbench.tasks import Source

POISON = "POSENC_TEST_POISON"
"""An environment variable that makes every accelerator call of a process fail, as after a device-side assert."""
ASSERT = "CUDA error: device-side assert triggered"


@dataclass(frozen=True)
class Count(Identified):
    """A plan that adds up the numbers below ``steps``, saves its progress, and fails as ``fails`` says."""

    kind: ClassVar[str] = "count"
    called: str
    steps: int
    pause: float = 0
    fails: str = ""
    told: str = ""
    waits: str = ""
    """A file for which the run waits at step 40, while it keeps reporting."""

    @property
    def name(self) -> str:
        return self.called


@dataclass(frozen=True, kw_only=True)
class Counting(Job):
    """The job of a ``Count``. Its run has the sum as number of parameters, and the first step as final loss."""

    plan: Count
    own: tuple[Path, ...] = ()

    @property
    def modules(self) -> tuple[Path, ...]:
        return self.own

    def run(self, report: Report) -> Run:
        if POISON in os.environ:
            raise RuntimeError(ASSERT)
        if self.plan.fails == "exits":
            os._exit(1)  # as a process does whose script starts runs without a guard
        if self.plan.fails.startswith("raises"):
            fail(self.plan.fails)
        state = self.folder / f"{self.plan.id}.state"
        first, total = json.loads(state.read_text()) if state.exists() else (0, 0)
        for step in range(first, self.plan.steps):
            if self.plan.fails == "always" or (self.plan.fails == "once" and step == 15 and first == 0):
                os.kill(os.getpid(), signal.SIGKILL)
            while step == 40 and self.plan.waits and not Path(self.plan.waits).exists():
                time.sleep(0.2)
                report(Progress(self.plan.id, 0))
            total += step
            report(Progress(self.plan.id, 1, step, LossCurve((float(step),))))
            self._write(state, [step + 1, total])
            time.sleep(self.plan.pause)
        if self.modules:
            self._write(self.folder / f"{self.plan.id}.seen", seen(self))
        self._write(self.folder / f"{self.plan.id}.weights", total)
        state.unlink()
        return Run(self.plan, (), 0.0, total, float(first))

    def _write(self, file: Path, value: object) -> None:
        with write_atomically(file) as partial:
            partial.write_text(json.dumps(value))


def seen(job: Counting) -> dict[str, object]:
    """Return the environment that a job sees."""
    import one_of_my_own  # type: ignore[import-not-found]
    import torch

    import posenc

    assert job.source
    text = job.source.load()
    return {
        "module": one_of_my_own.VALUE,
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "threads": torch.get_num_threads(),
        "text": len(text.train) + len(text.validation),
        "folder": str(job.folder),
        "posenc": posenc.__file__,
        "deaf": signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []),
    }


class StubbornError(Exception):
    """An error that cannot be unpickled, because its constructor needs two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail(kind: str) -> None:
    """Raise posenc's error, a device-side assert, an out-of-memory error, or an error that cannot be unpickled."""
    if kind == "raises ours":
        raise UnknownName("thing", "on", ["one"])
    if kind == "raises poison":
        os.environ[POISON] = "1"
        raise RuntimeError(ASSERT)
    if kind == "raises memory":
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory")
    raise StubbornError(1, 2)


REASONS = {
    "raises ours": "unknown thing 'on'; did you mean 'one'? known: one",
    "raises memory": "OutOfMemoryError: CUDA out of memory",
    "raises stubborn": "StubbornError: 1 and 2",
}


def counting(
    folder: Path, called: str, steps: int = 20, pause: float = 0, fails: str = "", waits: str = "", **more: Any
) -> Counting:
    return Counting(plan=Count(called, steps, pause, fails, waits=waits), folder=folder, **more)


def failing(folder: Path) -> list[Counting]:
    return [counting(folder, kind, fails=kind) for kind in REASONS]


def seeing(folder: Path, own: Path, called: str) -> Counting:
    """Return a job with a text and a module in ``own``, which imports a second module from that folder."""
    (own / "text.txt").write_text("read me " * 10)
    (own / "one_of_my_own.py").write_text("import beside_it\nVALUE = beside_it.VALUE\n")
    (own / "beside_it.py").write_text("VALUE = 7\n")
    modules = (own / "one_of_my_own.py", own / "beside_it.py")
    return counting(folder, called, source=Source(text=own / "text.txt"), own=modules)


@dataclass
class Heard:
    """Collects the results and reports of a launcher."""

    found: dict[str, Run | Failure] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)

    def done(self, found: Run | Failure) -> None:
        self.found[found.plan.name] = found

    def report(self, progress: Progress) -> None:
        self.losses.setdefault(progress.run, []).extend(progress.curve.losses)

    def sums(self) -> dict[str, tuple[int, int]]:
        """Return the sum of every run, and the step from which the run resumed."""
        return {k: (v.parameters, int(v.final_loss)) for k, v in self.found.items() if isinstance(v, Run)}

    def reasons(self) -> dict[str, str]:
        return {k: v.reason for k, v in self.found.items() if isinstance(v, Failure)}
