"""PoPE: its formula, what it does to widths, gradients of its angles, its scalings."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from posenc import PoPE, attention, scores
from posenc.positions import arange
from posenc.scaling import Linear, YaRN


def test_scores_by_their_formula() -> None:
    """Channel by channel, as vectors of two numbers; angles of float64 are off by 1e-11 at the last position."""
    pope, at = PoPE(4, 2, start="uniform").double(), torch.tensor([0, 1, 7, 100, 1024, 65_537])
    q, k = torch.randn(2, 1, 2, 6, 4, dtype=torch.float64)
    theta = 10_000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    angles = (at[None] - at[:, None])[..., None] * theta + pope.weight.detach()[:, None, None]
    lengths = softplus(q)[..., :, None, :] * softplus(k)[..., None, :, :]
    placed = pope.at(at, dtype=torch.float64)
    got = scores(*placed.rotate(q, k), placed)
    torch.testing.assert_close(got, (lengths * angles.cos()).sum(-1) / 2, rtol=0, atol=1e-9)


def test_part_of_a_head_passes_bit_for_bit_and_the_scale_stays() -> None:
    q = torch.randn(1, 2, 3, 8)
    placed = PoPE(8, 2, rotary_dim=6).at(arange(3, offset=9))
    turned, k = placed.rotate(q, q)
    assert turned.shape == k.shape == (1, 2, 3, 14)
    assert torch.equal(turned[..., 12:], q[..., 6:])
    assert placed.added == 6
    torch.testing.assert_close(scores(turned, k, placed), scores(turned, k, placed, scale=8**-0.5))
    y = attention(turned, k, q, placed, causal=True)
    assert y.shape == (1, 2, 3, 8)
    torch.testing.assert_close(y, attention(turned, k, q, placed, causal=True, scale=8**-0.5))


def test_gradients_of_the_angles_do_not_end() -> None:
    """The authors' clamp to [−2π, 0] would stop them outside; here δ and δ + 2π are one, and both are learned."""
    q, k = torch.randn(2, 1, 2, 4, 4, dtype=torch.float64)

    def result(delta: Tensor) -> Tensor:
        encoding = PoPE(4, 2).double()
        del encoding.weight
        encoding.weight = delta  # type: ignore[assignment]
        placed = encoding.at(arange(4), dtype=torch.float64)
        return scores(*placed.rotate(q, k), placed)

    delta = (torch.rand(2, 4, dtype=torch.float64) * 20 - 10).requires_grad_()
    assert torch.autograd.gradcheck(result, (delta,))
    torch.testing.assert_close(result(delta), result(delta + 2 * math.pi), rtol=0, atol=1e-13)


def test_schedules_set_its_ladder() -> None:
    plainly, slower = PoPE(8, 2), PoPE(8, 2).with_scaling(Linear(4.0))
    one, four = (e.tables(torch.tensor([n]), torch.float64) for e, n in ((plainly, 25), (slower, 100)))
    torch.testing.assert_close(four, one, rtol=0, atol=1e-15)
    assert PoPE(8, 2, scaling=YaRN(4, 512)).scaling == YaRN(4, 512)
    still = plainly.with_scaling(None)
    assert torch.equal(still.tables(torch.tensor([999]), torch.float64)[0], torch.ones(1, 8).double())
