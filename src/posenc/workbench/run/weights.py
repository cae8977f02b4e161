"""The trained weights of a run, as one safetensors file beside the ledger."""

from pathlib import Path

from torch import Tensor, nn

from posenc.errors import StudyError
from posenc.workbench.files import write_atomically
from posenc.workbench.run.plan import Identified
from posenc.workbench.run.state import unwritten

FOLDER = "checkpoints"
"""Of a study: weights of its runs, and the state of those under way."""


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
