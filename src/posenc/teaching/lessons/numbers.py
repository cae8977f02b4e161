"""The numbers that cards ask for, which the library computes."""

import torch

import posenc
from posenc.teaching.views import rotation, sinusoidal


def slowest_wavelength(width: int = 512, base: float = 10_000.0) -> float:
    """Return the wavelength 2π/θ of the last pair."""
    return sinusoidal.wavelength_by_pair(width, base)[-1]


def slowest_at_base_100() -> float:
    return slowest_wavelength(512, 100.0)


def change_under_shift() -> float:
    """Return how much a rotary score changes, to 4 decimals, if every position is shifted by 5."""
    rope = posenc.Rotary(64, pairing="half")
    q, k = torch.randn(2, 1, 1, 8, 64, generator=torch.Generator().manual_seed(0))
    placed = (rope.at(posenc.positions.arange(8, offset=offset)) for offset in (0, 5))
    before, after = (posenc.scores(*here.rotate(q, k), here, scale=1.0) for here in placed)
    return round(float((before - after).abs().max()), 4)


def neighbours_dot() -> float:
    """Return PE(5)·PE(6) at width 4, which equals PE(0)·PE(1)."""
    rows = posenc.Sinusoidal(4).table(torch.tensor([5, 6]), torch.float64)
    return float(rows[0] @ rows[1])


def rotated_score() -> float:
    """Return the score of the lessons' q at position 3 and k at position 5, with an eighth of a turn per
    position."""
    return float(rotation.shift_both(3, 2).readouts["score (rotated q·k)"])


def third_slope() -> float:
    """Return the slope of the third of eight ALiBi heads."""
    return float(posenc.ALiBi(8).slopes[2])


def longest_for_table() -> float:
    """Return the length of the longest sequence that a table of 512 rows accepts."""
    table = posenc.Learned(512, 2)
    table.check(posenc.positions.arange(512), "positions")
    return float(table.num_positions)
