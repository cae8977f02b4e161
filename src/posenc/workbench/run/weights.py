"""What a run learnt, as one safetensors file beside the ledger: written whole, read back, or said to be damaged."""

from pathlib import Path

from torch import Tensor, nn

from posenc.errors import StudyError
from posenc.workbench import files
from posenc.workbench.run.plan import Identified
from posenc.workbench.run.state import unwritten

FOLDER = "checkpoints"
"""Of a study: weights of its runs, and the state of those under way."""


def place(study: Path, plan: Identified) -> Path:
    """Where the weights of a run of this study lie."""
    return study / FOLDER / f"{plan.id}.safetensors"


def save(model: nn.Module, path: Path) -> None:
    """Write the weights: a file that is there is whole."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    held = set()
    for name, value in model.state_dict().items():
        again = value.data_ptr() in held  # an output map that is tied, say: the format holds nothing twice
        tensors[name] = value.clone() if again else value.contiguous()
        held.add(value.data_ptr())
    try:
        with files.whole(path) as partial:
            partial.touch()
            mode = partial.stat().st_mode  # safetensors keeps what it writes from everybody else
            save_file(tensors, partial)
            partial.chmod(mode)
    except (OSError, SafetensorError) as error:
        raise unwritten("weights", path, error) from error


def whole(path: Path) -> bool:
    """Whether the file is there and as long as its header says."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt"):
            return True
    except (OSError, SafetensorError):
        return False


def weights(study: Path, plan: Identified) -> dict[str, Tensor]:
    """What a run of the study learnt, by the model's names; StudyError where the file is gone or damaged."""
    path = place(study, plan)
    try:
        from safetensors.torch import load_file

        state: dict[str, Tensor] = load_file(path)
    except Exception as error:  # safetensors has its own exceptions for a truncated file
        raise StudyError(f"weights {str(path)!r} cannot be read ({error}); run posenc compare again") from error
    return state
