"""Learned frequencies: fresh ones are known ladders, gradients are those of the angles, far positions exact."""

import math

import pytest
import torch

import posenc
from posenc import LearnedRotary, Rotary, scores
from posenc.positions import arange


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_a_fresh_one_of_one_axis_is_rotary(pairing: posenc.encodings.rotary.Pairing) -> None:
    x = torch.randn(2, 3, 9, 16, dtype=torch.float64)
    at = arange(9, offset=100)
    got = LearnedRotary(16, pairing=pairing).at(at, dtype=torch.float64).rotate(x, x)[0]
    want = Rotary(16, pairing=pairing).at(at, dtype=torch.float64).rotate(x, x)[0]
    # Its frequencies are parameters in float32, off by 2^-24 each, and turn 108 positions.
    torch.testing.assert_close(got, want, rtol=0, atol=108 * 2.0**-24 * 2**0.5 * x.abs().max().item() * 2)


def test_a_fresh_one_of_two_axes_is_rope_mixed() -> None:
    """Rung j of base 10 points along (cos a, sin a) and along its normal, a drawn per rung and group."""
    F = LearnedRotary(16, pairing="interleaved", base=10.0, axes=2, groups=3).frequencies.detach()
    assert F.shape == (2, 3, 8)
    lengths = F.norm(dim=0)
    rungs = torch.tensor([10 ** (-j / 4) for j in range(4)])
    torch.testing.assert_close(lengths, rungs.repeat(3, 2), rtol=1e-6, atol=0)
    torch.testing.assert_close((F[..., :4] * F[..., 4:]).sum(0), torch.zeros(3, 4), rtol=0, atol=1e-7)
    assert not torch.allclose(F[:, 0], F[:, 1], atol=1e-2)


def test_angles_are_sums_over_axes_and_groups_of_heads_differ() -> None:
    encoding = LearnedRotary(8, pairing="half", axes=2, groups=2, base=10.0, signed=True).double()
    at = torch.tensor([[0, 3, -5], [2, 0, 7]])
    q, k = torch.randn(1, 4, 3, 8, dtype=torch.float64), torch.randn(1, 2, 3, 8, dtype=torch.float64)
    turned = encoding.at(at, dtype=torch.float64).rotate(q, k)
    F = encoding.frequencies.detach()
    for name, x, got in (("q", q, turned[0]), ("k", k, turned[1])):
        for head in range(x.shape[1]):
            group = head * 2 // x.shape[1]
            angle = at[0][:, None] * F[0, group] + at[1][:, None] * F[1, group]
            pairs = torch.complex(x[0, head, :, :4], x[0, head, :, 4:]) * torch.exp(1j * angle)
            want = torch.cat((pairs.real, pairs.imag), dim=-1)
            torch.testing.assert_close(got[0, head].detach(), want, rtol=0, atol=1e-13, msg=f"{name} {head}")


def test_gradients_are_those_of_the_angles() -> None:
    encoding = LearnedRotary(4, pairing="half", axes=1).double()
    q, k = torch.randn(2, 1, 1, 5, 4, dtype=torch.float64)
    at = torch.tensor([0, 3, 100, 5, 40])

    def result(F: torch.Tensor) -> torch.Tensor:
        del encoding.frequencies
        encoding.frequencies = F  # type: ignore[assignment]
        placed = encoding.at(at, dtype=torch.float64)
        return scores(*placed.rotate(q, k), placed)

    F = encoding.frequencies.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(result, (F,), atol=1e-4)
    assert torch.autograd.gradgradcheck(result, (F,), atol=1e-3)


def test_far_positions_are_exact_for_the_frequencies_it_has() -> None:
    """In floating point p·F is wrong by 1e-7 rad at a billion even in float64; here F's turns are rounded."""
    encoding = LearnedRotary(8, pairing="half")
    far = 2**31 - 1
    cos, sin = (table.detach().flatten() for table in encoding.tables(torch.tensor([far]), torch.float64))
    for i, theta in enumerate(encoding.frequencies.detach().flatten().tolist()):
        turns = (far * theta) / (2 * math.pi)  # as exact as float64's product, 5e-16 of ten million turns
        angle = 2 * math.pi * (turns - math.floor(turns))
        assert math.hypot(cos[i] - math.cos(angle), sin[i] - math.sin(angle)) < 2e-6
        assert math.hypot(cos[i], sin[i]) == pytest.approx(1, abs=1e-15)


def test_a_cast_rounds_what_is_trained_until_it_is_loaded_into_float32() -> None:
    """As its documentation says, digits and all: F is a parameter, and a cast rounds parameters."""
    encoding, far = LearnedRotary(16, pairing="half"), torch.tensor([4096])
    weights = {name: value.clone() for name, value in encoding.state_dict().items()}
    want = encoding.tables(far)[0]
    rounded = encoding.to(torch.bfloat16).tables(far)[0].float()
    assert (rounded - want).abs().max().item() == pytest.approx(0.7, abs=0.05)
    encoding.float().load_state_dict(weights)
    assert torch.equal(encoding.tables(far)[0], want)
