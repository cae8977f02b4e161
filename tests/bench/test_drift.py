"""What moves do to cached keys."""

import torch
from benchmarks.drift import moved


def test_raw_keys_do_not_drift() -> None:
    """Three roundings to bfloat16, of 2^-9 at most each, however often they move; rotated keys round every time."""
    rows = moved(torch.bfloat16, moves=100)
    assert [move for move, *_ in rows] == [1, 10, 100]
    assert max(raw for _, _, raw in rows) < 3 * 2**-8 < rows[-1][1]
