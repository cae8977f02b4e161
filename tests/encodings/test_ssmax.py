"""Scalable softmax: its factors, and what it makes of softmax over many keys."""

import pytest
import torch

from posenc import SSMax
from posenc.positions import arange


def test_a_fresh_one_changes_nothing_at_its_length() -> None:
    got = SSMax(2, length=512).factors(torch.tensor([0, 511, 262_143]), torch.float64)[0]
    # The parameter is float32, off by 2^-24.
    torch.testing.assert_close(got, torch.tensor([[0.0, 1.0, 2.0]] * 2).double(), rtol=2**-23, atol=0)


def test_softmax_does_not_fade_over_more_keys() -> None:
    """One key of score 1 among n−1 of score 0: e/(e+n−1) fades to zero, n^s/(n^s+n−1) does not for s > 1."""
    encoding = SSMax(1)
    torch.nn.init.constant_(encoding.weight, 1.5)
    for n in (16, 1024, 16_384):
        scale = encoding.at(arange(1, offset=n - 1)).scale
        scores = torch.cat((torch.ones(1), torch.zeros(n - 1)))
        got = (scores * scale.flatten()).softmax(0)[0].item()
        assert got == pytest.approx(n**1.5 / (n**1.5 + n - 1), rel=1e-4)
