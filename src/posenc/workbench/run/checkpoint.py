"""Files of a run, written atomically: the state of its training while it goes on, and its trained weights."""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import StudyError
from posenc.workbench.files import sweep, write_atomically
from posenc.workbench.run.plan import Identified, LossCurve

FOLDER = "checkpoints"
"""Of a study: weights of its runs, and the state of those under way."""


def unwritten(what: str, path: Path, error: BaseException) -> StudyError:
    """The error of a file that a run should have left."""
    return StudyError(
        f"{what} cannot be written to {str(path.parent)!r}: {error}; make room and run the same command"
    )


@dataclass
class Trained:
    """What a ``LossCurve`` has, so far, and why the training was broken off, if it was."""

    losses: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    verdict: str = ""
    norms: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)

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
        validation = tuple((step, loss) for step, loss in self.validation)
        return LossCurve(tuple(self.losses), self.tokens, self.seconds, tuple(self.norms), validation)


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
            trained = Trained(**values["trained"])
        except Exception:  # cut short, say: torch has many ways to say so
            return Trained()
        self.model.load_state_dict(values["model"])
        self.optimiser.load_state_dict(values["optimiser"])
        self.generator.set_state(values["generator"])
        return trained

    def save(self, trained: Trained) -> None:
        """Write the state after the step of the last loss."""
        if self.path is None:
            return
        values = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "trained": asdict(trained),
        }
        try:
            with write_atomically(self.path) as partial:
                torch.save(values, partial)
        except (OSError, RuntimeError) as error:
            raise unwritten("the state of a run", self.path, error) from error


def path_of(study: Path, plan: Identified) -> Path:
    """The file of a run's weights in a study's folder."""
    return study / FOLDER / f"{plan.id}.safetensors"


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the weights atomically."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    pointers = set()
    for name, value in model.state_dict().items():
        again = value.data_ptr() in pointers  # a tied output map, say: the format holds nothing twice
        tensors[name] = value.clone() if again else value.contiguous()
        pointers.add(value.data_ptr())
    try:
        with write_atomically(path) as partial:
            partial.touch()
            mode = partial.stat().st_mode  # safetensors makes its files private
            save_file(tensors, partial)
            partial.chmod(mode)
    except (OSError, SafetensorError) as error:
        raise unwritten("weights", path, error) from error


def complete(path: Path) -> bool:
    """Whether the file exists and is as long as its header says."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt"):
            return True
    except (OSError, SafetensorError):
        return False


def load_weights(study: Path, plan: Identified) -> dict[str, Tensor]:
    """The trained weights of a run by the model's names; StudyError where the file is gone or damaged."""
    path = path_of(study, plan)
    try:
        from safetensors.torch import load_file

        state: dict[str, Tensor] = load_file(path)
    except Exception as error:  # safetensors has its own exceptions for a truncated file
        raise StudyError(f"weights {str(path)!r} cannot be read ({error}); run posenc compare again") from error
    return state
