"""ALiBi: slopes that are given, and a line where positions are consecutive."""

import pytest
import torch

from posenc import ALiBi, NoPE, attention
from posenc.encodings.alibi import slopes
from posenc.positions import arange, packed
from support import reference


def test_given_slopes_leave_heads_without_a_bias() -> None:
    """ALiBi on two of four heads is ALiBi(2) there, and plain attention on the others; 1200 tokens have a reach."""
    half, at = ALiBi(4, slopes=[*slopes(2), 0, 0]), arange(1200)
    q, k, v = torch.randn(3, 1, 4, 1200, 8, dtype=torch.float64)
    y = attention(q, k, v, half.at(at, dtype=torch.float64), causal=True)
    first = attention(q[:, :2], k[:, :2], v[:, :2], ALiBi(2).at(at, dtype=torch.float64), causal=True)
    others = attention(q[:, 2:], k[:, 2:], v[:, 2:], NoPE().at(at), causal=True)
    torch.testing.assert_close(y, torch.cat((first, others), dim=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [*range(1, 21), 32, 40, 71, 112, 128])
def test_slopes_are_those_of_the_paper(heads: int) -> None:
    assert slopes(heads) == pytest.approx(reference.slopes(heads), rel=1e-15)


@pytest.mark.parametrize(
    ("q_positions", "k_positions", "straight"),
    [
        (arange(5), arange(5), True),
        (arange(5, offset=10**9), arange(5, offset=10**9), True),
        (arange(2, offset=3), arange(5), True),
        (arange(5), arange(3), False),
        (arange(2), arange(5), False),
        (packed([2, 3])[0], packed([2, 3])[0], False),
        (arange(5)[None], arange(5)[None], False),
        (2 * arange(5), 2 * arange(5), False),
    ],
)
def test_a_line_is_made_exactly_where_positions_are_consecutive(
    q_positions: torch.Tensor, k_positions: torch.Tensor, straight: bool
) -> None:
    """And rows give the same biases as the line where both exist."""
    bias = ALiBi(4).at(q_positions, k_positions).bias
    assert (bias.toeplitz is not None) == straight
    T, S = q_positions.shape[-1], k_positions.shape[-1]
    want = reference.Slopes(reference.slopes(4)).bias(q_positions.view(-1), k_positions.view(-1))
    assert torch.equal(bias.rows(0, T, S)[0], want.float())
    if bias.toeplitz is not None:
        assert bias.toeplitz.shape == (4, S + T - 1)
        for t in range(T):
            start = S - 1 - (S - T + t)
            assert torch.equal(bias.toeplitz[:, start : start + S], want[:, t].float())
