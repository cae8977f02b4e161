"""Buckets of DeBERTa, and which keys CoPE counts."""

import math

import torch

from posenc import CoPE, DeBERTa, Mask, scores
from posenc.positions import arange


def test_debertas_buckets() -> None:
    """Query − key; both sides end in different rows."""
    bucket = DeBERTa(1, 1).bucket
    ends = {128: 128, 129: 129, 200: 169, 256: 192, 300: 207, 400: 233, 510: 255, 512: 256, 600: 256}
    for distance, size in ends.items():
        behind, ahead = bucket(torch.tensor([-distance, distance])).tolist()
        assert (behind, ahead) == (min(256 + size, 511), 256 - size), distance
    assert bucket(torch.tensor([0, -1, 1, -(2**31), 2**31])).tolist() == [256, 257, 255, 511, 0]


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
