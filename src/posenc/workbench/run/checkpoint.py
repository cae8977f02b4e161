"""Reads and writes the files of a run: the state of its training, and its trained weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import StudyError
from posenc.workbench.files import PARTIAL, write_atomically
from posenc.workbench.run.machine import versions
from posenc.workbench.run.plan import Identified, LossCurve

FOLDER = "checkpoints"
"""The subfolder of a study's folder for the weights of finished runs and the states of unfinished runs."""
FILES = ".safetensors", ".state"
"""The suffixes of the files with weights and states."""


@contextmanager
def _writing(what: str, path: Path) -> Iterator[Path]:
    """Write a file of a run atomically. If this fails, raise a ``StudyError`` that says what cannot be written."""
    from safetensors import SafetensorError

    try:
        with write_atomically(path) as partial:
            yield partial
    except (OSError, RuntimeError, SafetensorError) as error:  # torch raises RuntimeError if the disk is full
        raise StudyError(
            f"{what} cannot be written to {str(path.parent)!r}: {error}; free some space and run the same command "
            "again"
        ) from error


def load_state(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> LossCurve:
    """Restore a run's model, optimiser and generator from its state file, and return the losses so far.

    If the file is missing, the returned curve is empty. An unreadable file counts as missing. So does a file from
    another version of Python, torch or posenc, because a run must not mix results of two versions.
    """
    for partial in path.parent.glob(f"{path.stem}*{PARTIAL}"):  # left by a process that was killed
        partial.unlink(missing_ok=True)
    try:
        values: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        curve = LossCurve(**values["curve"])
        if values["versions"] != versions():
            return LossCurve()
    except Exception:  # missing, truncated or older files, for which torch raises many types of exception
        return LossCurve()
    model.load_state_dict(values["model"])
    optimiser.load_state_dict(values["optimiser"])
    generator.set_state(values["generator"])
    return curve


def save_state(
    path: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    generator: torch.Generator,
    curve: LossCurve,
) -> None:
    """Write the state of a run, with the losses in ``curve``."""
    values = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "generator": generator.get_state(),
        "curve": vars(curve),
        "versions": versions(),
    }
    with _writing("the state of a run", path) as partial:
        torch.save(values, partial)


def path_of(study: Path, plan: Identified) -> Path:
    """Return the path of a run's weights in a study's folder."""
    return study / FOLDER / f"{plan.id}.safetensors"


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the weights of a trained model atomically, and then delete the state of its training."""
    from safetensors.torch import save_file

    # safetensors refuses views of larger tensors and tensors that share memory, such as a tied output layer. The
    # copies are in host memory, so that device memory stays free for training.
    tensors = {
        name: value.to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in model.state_dict().items()
    }
    with _writing("weights", path) as partial:
        partial.touch()
        mode = partial.stat().st_mode  # safetensors makes files private
        save_file(tensors, partial)
        partial.chmod(mode)
    path.with_suffix(".state").unlink(missing_ok=True)


def complete(path: Path) -> bool:
    """Return whether the safetensors file exists and has the length given in its header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt"):
            return True
    except (OSError, SafetensorError):
        return False


def load_weights(study: Path, plan: Identified) -> dict[str, Tensor]:
    """Return the trained weights of a run by parameter name.

    Raises:
        StudyError: the file is missing or damaged.
    """
    path = path_of(study, plan)
    try:
        from safetensors.torch import load_file

        return load_file(path)
    except Exception as error:  # safetensors raises its own types for a truncated file
        raise StudyError(f"weights {str(path)!r} cannot be read ({error}); run posenc compare again") from error
