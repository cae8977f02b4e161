"""The source code of a user's encoding, for tests that run the encoding from a separate folder."""

from pathlib import Path

SOURCE = '''
"""A penalty that grows with the logarithm of distance: −r_h·ln(1 + |p_k − p_q|)."""
from pathlib import Path

import torch
from posenc import Encoding, OffsetBias, Placed

(Path(__file__).parent / "imported").touch()


class Penalty(OffsetBias):
    def values(self, offsets):
        rates = self.rates
        return -rates.view(-1, *[1] * offsets.dim()) * offsets.abs().float().log1p()


class LogDistance(Encoding):
    """Adds −r_h·ln(1 + distance) to the scores; r_h = strength·h/heads."""

    name = "log-distance"
    acts_on = ("bias",)
    relative = True

    def __init__(self, heads: int, *, strength: float = 1.0) -> None:
        super().__init__()
        if strength < 0:
            raise ValueError(f"strength={strength} is below 0")
        self.heads, self.strength = heads, strength

    def place(self, q_positions, k_positions, dtype):
        if self.strength == 13:
            raise ArithmeticError("thirteen")
        rates = self.strength * torch.arange(1, self.heads + 1, device=q_positions.device) / self.heads
        return Placed(q_positions, k_positions, bias=Penalty(self.heads, q_positions, k_positions, rates=rates))
'''


PENALTY = "-rates.view(-1, *[1] * offsets.dim()) * offsets.abs().float().log1p()"


def write(folder: Path, name: str = "log_distance", bias: str = PENALTY) -> str:
    """Write a module with this bias to the folder, and return the string that names the module's class.

    Whenever the module is imported, the module creates a file "imported" in its folder.
    """
    (folder / f"{name}.py").write_text(SOURCE.strip().replace(PENALTY, bias) + "\n")
    return f"{name}:LogDistance"


def was_imported(folder: Path) -> bool:
    """Return whether the module was imported since the last call of this function."""
    mark = folder / "imported"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found
