"""``python -m benchmarks.drift``: what 10,000 moves do to cached keys, raw against rotated.

256 random keys of 64 channels stand at positions 10,000 and on, and move to the position before, again and again,
as the keys behind an evicted token do. Raw keys are unrotated once and rotated once, where they end.
"""

import torch
from torch import Tensor

import posenc

KEYS, SHOWN = 256, (1, 10, 100, 1000, 10_000)


def moved(dtype: torch.dtype, moves: int = SHOWN[-1]) -> list[tuple[int, float, float]]:
    """After so many moves, the distance from the exact keys by their norm, of rotated and of raw ones."""
    rotary, raw = posenc.Rotary(64, pairing="half"), posenc.NoPE()
    generator = torch.Generator().manual_seed(0)
    content = torch.randn(1, 1, KEYS, 64, dtype=torch.float64, generator=generator)
    at = posenc.positions.arange(KEYS, offset=SHOWN[-1])
    keys = posenc.rerotate(content, at, raw, rotary).to(dtype)
    kept = posenc.rerotate(keys, at, rotary, raw)
    rows = []
    for move in range(1, moves + 1):
        keys = posenc.rerotate(keys, at, rotary, rotary, at - 1)
        at = at - 1
        if move in SHOWN:
            exact = posenc.rerotate(content, at, raw, rotary)
            late = posenc.rerotate(kept, at, raw, rotary)
            rows.append((move, _error(keys, exact), _error(late, exact)))
    return rows


def _error(keys: Tensor, exact: Tensor) -> float:
    return float((keys.double() - exact).norm() / exact.norm())


if __name__ == "__main__":
    for dtype in (torch.float32, torch.bfloat16):
        print(f"{dtype}: moves, relative error of rotated keys, of raw keys")
        for move, rotated, late in moved(dtype):
            print(f"{move:6d}  {rotated:.1e}  {late:.1e}")
