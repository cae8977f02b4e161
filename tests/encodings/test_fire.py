"""FIRE against its network written out in float64: pieces, gradients, the row's own normaliser, the line."""

import torch
from torch import Tensor

from posenc import FIRE
from posenc.positions import arange, left_padded
from support.attending import same_gradients


def ratio(fire: FIRE, q_at: Tensor, k_at: Tensor) -> Tensor:
    """z as the paper has it, ``(…, T, S)``."""

    def psi(x: Tensor) -> Tensor:
        return (fire.c * x).abs().add(1).log()

    far = torch.maximum(q_at.double(), (fire.m * fire.nearest).abs())
    return psi(k_at[..., None, :] - q_at[..., :, None]) / (psi(far) + 1e-6)[..., None]


def written_out(fire: FIRE, q_at: Tensor, k_at: Tensor) -> Tensor:
    """The network unit by unit, heads before rows."""
    hidden = (ratio(fire, q_at, k_at)[..., None] * fire.inner + fire.inner_bias).relu()
    return (hidden @ fire.outer.T + fire.outer_bias).movedim(-1, -3)


def bias_at(fire: FIRE, q_at: Tensor, k_at: Tensor) -> Tensor:
    return fire.at(q_at, k_at, dtype=torch.float64).bias.rows(0, q_at.shape[-1], k_at.shape[-1])


def test_pieces_are_the_network() -> None:
    """Values and gradients of every parameter, also of units that never turn on, or whose input is nothing."""
    fire = FIRE(3, units=9, nearest=20.0).double()
    with torch.no_grad():
        fire.inner[0] = fire.inner[1] = fire.inner[2] = 0.0
        fire.inner_bias[0], fire.inner_bias[1], fire.inner_bias[2] = 0.5, -0.5, 0.0
        fire.m.neg_()
    at = torch.tensor([0, 1, 2, 5, 19, 21, 40, 300, 10**6])
    got, want = bias_at(fire, at, at)[0], written_out(fire, at, at)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)
    same_gradients(got, want, list(fire.parameters()), 1e-11)


def test_left_padding_measures_by_the_row_of_every_sequence() -> None:
    fire, at = FIRE(2, nearest=3.0).double(), left_padded(torch.arange(12) >= torch.tensor([[5], [0]]))
    torch.testing.assert_close(bias_at(fire, at, at), written_out(fire, at, at), rtol=0, atol=1e-13)


def test_the_line_reaches_as_far_as_the_normaliser_is_one_number() -> None:
    fire = FIRE(2, nearest=16.0)
    near, far = (fire.at(arange(length)).bias for length in (17, 18))
    assert near.toeplitz is not None
    assert far.toeplitz is None
    with torch.no_grad():
        fire.m.fill_(2.0)
    assert fire.at(arange(33)).bias.toeplitz is not None
