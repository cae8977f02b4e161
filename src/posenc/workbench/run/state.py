"""Where a training stands, in one file: weights, optimiser, random numbers and losses; whole or not there."""

import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posenc.errors import StudyError
from posenc.workbench.files import sweep, whole
from posenc.workbench.run.plan import Curve


def unwritten(what: str, path: Path, error: BaseException) -> StudyError:
    """The error of a file that a run should have left."""
    return StudyError(
        f"{what} cannot be written to {str(path.parent)!r}: {error}; make room and run the same command"
    )


@dataclass
class Trained:
    """How far a training has come: the loss of every step, what it read, and why it was broken off, if it was."""

    losses: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    verdict: str = ""

    @property
    def final_loss(self) -> float:
        """The mean of the last tenth; infinite where it was broken off."""
        if self.verdict:
            return math.inf
        tail = self.losses[-max(1, len(self.losses) // 10) :]
        return float(torch.tensor(tail).mean())

    @property
    def curve(self) -> Curve:
        """As ledgers keep it."""
        return Curve(tuple(self.losses), self.tokens, self.seconds)


class State:
    """The state of one training; nothing is kept where ``path`` is None.

    What is there is whole. A file that cannot be read is no state.
    """

    def __init__(
        self, path: Path | None, model: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> None:
        self.path, self.model, self.optimiser, self.generator = path, model, optimiser, generator

    def load(self) -> Trained:
        """Set everything to where it stood, and say how far that is; at the start without a state."""
        if self.path is None:
            return Trained()
        sweep(self.path.parent, self.path.stem)
        if not self.path.exists():
            return Trained()
        try:
            kept: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True, mmap=True)
        except Exception:  # cut short, say: torch has many ways to say so
            return Trained()
        self.model.load_state_dict(kept["model"])
        self.optimiser.load_state_dict(kept["optimiser"])
        self.generator.set_state(kept["generator"])
        return Trained(kept["losses"].tolist(), kept["tokens"], kept["seconds"])

    def save(self, made: Trained) -> None:
        """Keep where everything stands, the step of the last loss being done."""
        if self.path is None:
            return
        values = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "losses": torch.tensor(made.losses, dtype=torch.float64),
            "tokens": made.tokens,
            "seconds": made.seconds,
        }
        try:
            with whole(self.path) as partial:
                torch.save(values, partial)
        except (OSError, RuntimeError) as error:
            raise unwritten("the state of a run", self.path, error) from error


def forget(path: Path) -> None:
    """Let go of the state of a training that has ended, of whichever kind."""
    path.unlink(missing_ok=True)
    remove(folders(path))


def folders(path: Path | None) -> list[Path]:
    """Those beside its path that hold a whole state of several processes."""
    if path is None or not path.parent.is_dir():
        return []
    return [folder for folder in path.parent.glob(f"{path.stem}.*.dcp") if (folder / ".metadata").exists()]


def remove(old: list[Path]) -> None:
    """Let go of such folders."""
    for folder in old:
        (folder / ".metadata").unlink()  # no longer whole, whatever happens next
        shutil.rmtree(folder)
