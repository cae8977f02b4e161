"""Cached keys moved to another spectrum equal keys rotated there at once."""

import pytest
import torch

import posenc
from posenc.errors import InvalidArgument
from posenc.schedules import NTK, YaRN


def test_moved_keys_equal_fresh_ones() -> None:
    k = torch.randn(2, 3, 9, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    positions = torch.arange(9) + torch.tensor([[1_000_000], [7]])
    old = posenc.Rotary(16, pairing="half", rotary_dim=8, schedule=NTK(2))
    new = posenc.Rotary(16, pairing="half", rotary_dim=8, base=5e5, schedule=YaRN(4, 512))
    cached, want = (r.at(positions, dtype=torch.float64).rotate(k, k)[1] for r in (old, new))
    # Two float64 tables, one product: a few units of 2^−53 on channels of size 4.
    torch.testing.assert_close(posenc.rerotate(cached, positions, old, new), want, rtol=0, atol=1e-14)
    back = posenc.rerotate(want, positions, new, old)
    torch.testing.assert_close(back, cached, rtol=0, atol=1e-14)
    assert not torch.allclose(cached, want, atol=1e-2)


def test_phases_may_differ() -> None:
    k = torch.randn(1, 1, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    positions = torch.arange(4) + 100_000
    old, new = (posenc.Rotary(8, pairing="interleaved", phases=p) for p in ("float32", "exact"))
    cached, want = (r.at(positions, dtype=torch.float64).rotate(k, k)[1] for r in (old, new))
    assert not torch.allclose(cached, want, atol=1e-4)  # float32 angles are off by 4e-3 here
    # The float32 clock rounds its cos and sin to float32, 3e-8 each.
    torch.testing.assert_close(posenc.rerotate(cached, positions, old, new), want, rtol=0, atol=1e-6)


def test_other_channels_are_refused() -> None:
    one, other = posenc.Rotary(8, pairing="half"), posenc.Rotary(8, pairing="interleaved")
    with pytest.raises(InvalidArgument, match="from_ has pairing='half' and to has pairing='interleaved'"):
        posenc.rerotate(torch.zeros(1, 1, 2, 8), torch.arange(2), one, other)
