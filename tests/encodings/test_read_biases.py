"""Which keys CoPE counts."""

import math

import torch

from posenc import CoPE, Mask, scores
from posenc.positions import arange


def test_cope_does_not_count_what_is_hidden() -> None:
    """The future, padding, other documents: a gate on them would let a token see them."""
    cope, (q, k) = CoPE(4, 2, positions=6, std=1.0).double(), torch.randn(2, 1, 2, 9, 4, dtype=torch.float64)
    seen_keys = torch.ones(1, 9, dtype=torch.bool)
    seen_keys[0, 3] = False
    placed, other = cope.at(arange(9), dtype=torch.float64), k.clone()
    other[:, :, 3] = other[:, :, 7:] = 100.0
    for mask in (Mask(causal=True, key_mask=seen_keys), Mask(key_mask=seen_keys & (arange(9) < 7))):
        rows = [scores(q, keys, placed, mask)[:, :, :7] for keys in (k, other)]
        seen = rows[0] > -math.inf
        torch.testing.assert_close(rows[1][seen], rows[0][seen], rtol=0, atol=1e-12)
