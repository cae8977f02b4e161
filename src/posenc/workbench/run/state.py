"""The state of a training in one file, written atomically: weights, optimiser, random numbers and losses."""

import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posenc.errors import StudyError
from posenc.workbench.files import sweep, write_atomically
from posenc.workbench.run.plan import LossCurve


def unwritten(what: str, path: Path, error: BaseException) -> StudyError:
    """The error of a file that a run should have left."""
    return StudyError(
        f"{what} cannot be written to {str(path.parent)!r}: {error}; make room and run the same command"
    )


@dataclass
class Trained:
    """The loss of every step so far, tokens and seconds, and why the training was broken off, if it was."""

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
    def curve(self) -> LossCurve:
        """As ledgers keep it."""
        return LossCurve(tuple(self.losses), self.tokens, self.seconds)


class State:
    """The state of one training; without a ``path`` there is none. A file that cannot be read counts as none."""

    def __init__(
        self, path: Path | None, model: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> None:
        self.path, self.model, self.optimiser, self.generator = path, model, optimiser, generator

    def load(self) -> Trained:
        """Restore model, optimiser and generator; returns the losses so far, none without a state."""
        if self.path is None:
            return Trained()
        sweep(self.path.parent, self.path.stem)
        if not self.path.exists():
            return Trained()
        try:
            values: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True, mmap=True)
        except Exception:  # cut short, say: torch has many ways to say so
            return Trained()
        self.model.load_state_dict(values["model"])
        self.optimiser.load_state_dict(values["optimiser"])
        self.generator.set_state(values["generator"])
        return Trained(values["losses"].tolist(), values["tokens"], values["seconds"])

    def save(self, trained: Trained) -> None:
        """Write the state after the step of the last loss."""
        if self.path is None:
            return
        values = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "losses": torch.tensor(trained.losses, dtype=torch.float64),
            "tokens": trained.tokens,
            "seconds": trained.seconds,
        }
        try:
            with write_atomically(self.path) as partial:
                torch.save(values, partial)
        except (OSError, RuntimeError) as error:
            raise unwritten("the state of a run", self.path, error) from error


def forget(path: Path) -> None:
    """Remove the state of a training that has ended, of either kind."""
    path.unlink(missing_ok=True)
    remove(folders(path))


def folders(path: Path | None) -> list[Path]:
    """The folders beside its path that hold a complete state of several processes."""
    if path is None or not path.parent.is_dir():
        return []
    return [folder for folder in path.parent.glob(f"{path.stem}.*.dcp") if (folder / ".metadata").exists()]


def remove(old: list[Path]) -> None:
    """Remove such folders."""
    for folder in old:
        (folder / ".metadata").unlink()  # incomplete from here on, even if the next line fails
        shutil.rmtree(folder)
