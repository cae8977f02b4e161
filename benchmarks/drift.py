"""``python -m benchmarks.drift``: the error of cached keys after 10,000 moves, rotated and raw.

256 random keys with 64 channels start at position 10,000 and repeatedly move back by one position, like the keys
after an evicted token. Raw keys are unrotated once, and rotated once at their final positions.
"""

import torch
from torch import Tensor

import posenc

KEYS, SHOWN = 256, (1, 10, 100, 1000, 10_000)


def moved(dtype: torch.dtype, moves: int = SHOWN[-1]) -> list[tuple[int, float, float]]:
    """Return rows of the number of moves, and the relative errors of rotated keys and of raw keys."""
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
