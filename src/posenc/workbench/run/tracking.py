"""Sends the numbers of runs to TensorBoard or, offline, to W&B: those of a study, and of any training.

with Tracker("tensorboard", Path("study")) as tracker:
    comparison.run(launcher, report=tracker.note)              # posenc compare --track tensorboard
    Trainer(…, callbacks=[loss_by_position(text, report=partial(tracker.log, "my run"))]).train()
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from posenc.arguments import one_of
from posenc.errors import MissingExtra, StudyError
from posenc.workbench.run.job import Progress


class _Run(NamedTuple):
    """What writes a step's values, and what ends the run."""

    log: Callable[[Mapping[str, float], int], object]
    close: Callable[[], object]


class Tracker(AbstractContextManager["Tracker"]):
    """Numbers by run and step.

    Args:
        kind: ``"tensorboard"``, event files in ``folder/tensorboard``; or ``"wandb"``, a folder a run in
            ``folder/wandb``, which ``wandb sync`` sends to a server.
        folder: where they are written.
        names: of runs, as people read them, by id; others are called by their id.

    Raises:
        UnknownName: another kind.
        MissingExtra, StudyError: its package is not installed.
    """

    def __init__(self, kind: str, folder: Path, names: Mapping[str, str] | None = None) -> None:
        kinds = {"tensorboard": _tensorboard, "wandb": _wandb}
        self._opened = kinds[one_of("track", kind, kinds)](folder)
        self._names, self._runs, self._next = names or {}, dict[str, _Run](), dict[str, int]()

    def log(self, run: str, step: int, values: Mapping[str, float]) -> None:
        """Write a step's values. Steps that this run is past are left out: one that goes on tells all once more."""
        if step < self._next.get(run, 0):
            return
        if run not in self._runs:
            self._runs[run] = self._opened(run, self._names.get(run, run), step)
        self._runs[run].log(values, step)
        self._next[run] = step + 1

    def note(self, progress: Progress) -> None:
        """Write all that a run tells of its steps, by the field's name: a number a step, or steps with a number."""
        by_step: dict[int, dict[str, float]] = {}
        for field in fields(progress):
            each = getattr(progress, field.name)
            for step, value in enumerate(each if isinstance(each, tuple) else (), progress.first):
                at, number = value if isinstance(value, tuple) else (step, value)
                by_step.setdefault(at, {})[field.name] = number
        for step in sorted(by_step):
            self.log(progress.run, step, by_step[step])

    def end(self, run: str) -> None:
        """Close the files of a run that is over."""
        if run in self._runs:
            self._runs.pop(run).close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in list(self._runs):
            self.end(run)


def _tensorboard(folder: Path) -> Callable[[str, str, int], _Run]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "track") from error

    def opened(run: str, name: str, first: int) -> _Run:
        # Steps from here on that a run wrote before it was killed are not shown.
        writer = SummaryWriter(folder / "tensorboard" / name.replace("/", "_"), purge_step=first)

        def log(values: Mapping[str, float], step: int) -> None:
            for tag, value in values.items():
                writer.add_scalar(tag, value, step)

        return _Run(log, writer.close)

    return opened


def _wandb(folder: Path) -> Callable[[str, str, int], _Run]:
    try:
        import wandb
    except ImportError as error:
        raise StudyError("wandb is not installed; type: pip install wandb") from error

    def opened(run: str, name: str, first: int) -> _Run:
        folder.mkdir(parents=True, exist_ok=True)
        quiet = wandb.Settings(silent=True)
        named = {"project": "posenc", "name": name, "id": run, "settings": quiet}
        one = wandb.init(mode="offline", dir=folder, reinit="create_new", **named)
        return _Run(lambda values, step: one.log(dict(values), step=step), one.finish)

    return opened
