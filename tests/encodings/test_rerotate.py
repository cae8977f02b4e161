"""Cached keys moved to other spectra and positions equal keys rotated there at once, for all that can be moved."""

import pytest
import torch
from torch import Tensor

import posenc
from posenc.encodings.axes import chunked
from posenc.scaling import NTK, YaRN


def keys(K: int = 3, S: int = 9, D: int = 16, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(2, K, S, D, dtype=dtype, generator=torch.Generator().manual_seed(0))


def rotated(encoding: posenc.Encoding, k: Tensor, positions: Tensor) -> Tensor:
    """What a cache holds of these keys."""
    return encoding.at(positions, dtype=torch.float64).rotate(k, k)[1].detach()


MOVABLE = {
    "rotary": posenc.Rotary(16, pairing="half", scaling=YaRN(4, 512)),
    "partial": posenc.Rotary(16, pairing="interleaved", rotary_dim=8),
    "xpos": posenc.XPos(16, pairing="half"),
    "pope": posenc.PoPE(16, 3, rotary_dim=12),
    "learned": posenc.LearnedRotary(16, pairing="half"),
    "stack": posenc.Stack(posenc.Rotary(16, pairing="half"), posenc.ALiBi(3)),
    "alibi": posenc.ALiBi(3),
    "nope": posenc.NoPE(),
}


@pytest.mark.parametrize("name", MOVABLE)
def test_a_shifted_context_equals_one_read_there(name: str) -> None:
    """By row: one row of the batch moves by a thousand, the other back to the start."""
    encoding, k = MOVABLE[name], keys()
    start = min(1_000_000, encoding.position_limit // 20)
    old = torch.arange(9) + torch.tensor([[start], [7]])
    new = torch.arange(9) + torch.tensor([[start + 1000], [0]])
    cached, want = rotated(encoding, k, old), rotated(encoding, k, new)
    got = posenc.rerotate(cached, old, encoding, encoding, new)
    # Two float64 tables and two products: a few units of 2^-53 on channels of size 4, or on what xPos made of them;
    # PoPE's logarithm and exponential add some.
    torch.testing.assert_close(got, want, rtol=0, atol=2e-14 * max(1.0, float(want.abs().max()) / 4))


CENTRED = posenc.Rotary(16, pairing="half", axes=chunked(4, 2, 2), signed=True)
AROUND = torch.arange(27).reshape(3, 9) - 13
"""An encoding of positions around a centre, on three axes, and such positions."""


@pytest.mark.parametrize(
    ("encoding", "positions"),
    [
        *((encoding, torch.arange(9) * 1000) for encoding in MOVABLE.values()),
        (CENTRED, AROUND),
        (CENTRED, AROUND[:, None].expand(3, 2, 9)),
    ],
    ids=[*MOVABLE, "centred", "centred, by row"],
)
def test_late_is_as_good_as_early_and_comes_undone(encoding: posenc.Encoding, positions: Tensor) -> None:
    """NoPE has no axes and no sign of its own: positions are those of the other encoding."""
    k = keys()
    late = posenc.rerotate(k, positions, posenc.NoPE(), encoding)
    torch.testing.assert_close(late, rotated(encoding, k, positions), rtol=0, atol=1e-14)
    back = posenc.rerotate(late, positions, encoding, posenc.NoPE())
    torch.testing.assert_close(back, k, rtol=0, atol=2e-14)


def test_axes_move_apart() -> None:
    """A picture put elsewhere: rows move, columns stay."""
    encoding, k = posenc.Rotary(16, pairing="half", axes=chunked(4, 2, 2)), keys()
    old = torch.stack((torch.zeros(9), torch.arange(9) // 3, torch.arange(9) % 3)).long()
    new = old + torch.tensor([[5], [40], [0]])
    got = posenc.rerotate(rotated(encoding, k, old), old, encoding, encoding, new)
    torch.testing.assert_close(got, rotated(encoding, k, new), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("old", "new", "start", "atol"),
    [
        (posenc.XPos(16, pairing="half"), posenc.XPos(16, pairing="half", gamma=0.9, scale_base=64), 500, 1e-14),
        (posenc.XPos(16, pairing="half"), posenc.Rotary(16, pairing="half"), 500, 1e-14),
        (
            posenc.LearnedRotary(16, pairing="half", groups=3),
            posenc.LearnedRotary(16, pairing="half", base=500.0),
            500,
            1e-14,
        ),
        (
            posenc.Rotary(16, pairing="half", rotary_dim=8, scaling=NTK(2)),
            posenc.Rotary(16, pairing="half", rotary_dim=8, base=5e5, scaling=YaRN(4, 512)),
            1_000_000,
            1e-14,
        ),
        # The float32 clock rounds its cos and sin to float32, 3e-8 each, and cos² + sin² with them.
        (
            posenc.Rotary(16, pairing="interleaved", phases="float32"),
            posenc.Rotary(16, pairing="interleaved"),
            100_000,
            1e-6,
        ),
    ],
    ids=["fading", "without fading", "groups", "spectrum", "phases"],
)
def test_what_else_differs_than_channels_is_no_hindrance(
    old: posenc.Encoding, new: posenc.Encoding, start: int, atol: float
) -> None:
    """Fading and frequencies are undone: keys come out as the other rotates them."""
    k, positions = keys(), torch.arange(9) + torch.tensor([[start], [7]])
    cached, want = (rotated(encoding, k, positions) for encoding in (old, new))
    assert not torch.allclose(cached, want, atol=1e-4)
    got, size = posenc.rerotate(cached, positions, old, new), max(1.0, float(want.abs().max()) / 4)
    torch.testing.assert_close(got, want, rtol=0, atol=atol * size)


def test_a_16_bit_cache_is_rounded_once_more() -> None:
    encoding, k = MOVABLE["rotary"], keys(dtype=torch.bfloat16)
    old, new = torch.arange(9), torch.arange(9) + 777
    got = posenc.rerotate(encoding.at(old).rotate(k, k)[1], old, encoding, encoding, new)
    assert got.dtype == torch.bfloat16
    want = rotated(encoding, k.double(), new)
    pair = want.unflatten(-1, (2, 8)).norm(dim=-2).repeat(1, 1, 1, 2)
    # Each of the two roundings moves a channel by 2^-8 of itself; turning spreads the first over its pair.
    assert bool(((got.double() - want).abs() <= 2.0**-8 * (1 + 2**0.5) * pair).all())


def test_layers_without_positions_stand_beside_signed_ones() -> None:
    signed = posenc.Rotary(16, pairing="half", signed=True)
    layers = posenc.Layers({"rotary": signed, "nope": posenc.NoPE()}, ("rotary", "nope"))
    k, positions = keys(), torch.arange(9) - 4
    placed = layers.at(positions, dtype=torch.float64)
    assert torch.equal(placed[0].rotate(k, k)[1], rotated(signed, k, positions))
    assert torch.equal(placed[1].rotate(k, k)[1], k)
