"""ALiBi: slopes for every head count, the sign, both sides, and a bias that never becomes a square."""

import pytest
import torch

from posenc import ALiBi, NoPE, attention
from posenc.encodings.alibi import alibi_bias, slopes
from posenc.errors import InvalidArgument
from posenc.positions import arange, packed
from support import reference

EIGHT = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
LISTS = {
    1: [2.0**-8],
    2: [2.0**-4, 2.0**-8],
    4: [0.25, 0.0625, 0.015625, 0.00390625],
    6: [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125],
    8: EIGHT,
    12: [*EIGHT, 0.70710678, 0.35355339, 0.17677670, 0.08838835],
    16: [2 ** (-h / 2) for h in range(1, 17)],
}


@pytest.mark.parametrize("heads", LISTS)
def test_slopes_of_the_paper(heads: int) -> None:
    assert slopes(heads) == pytest.approx(LISTS[heads], rel=1e-7)


@pytest.mark.parametrize("max_exponent", [8.0, 16.0])
def test_slopes_of_every_head_count(max_exponent: float) -> None:
    for heads in range(1, 129):
        got = slopes(heads, max_exponent)
        assert got == pytest.approx(reference.slopes(heads, max_exponent), rel=1e-15)
        assert len(set(got)) == heads
        assert all(0 < slope < 1 for slope in got)
        in_module = ALiBi(heads, max_exponent=max_exponent).slopes
        assert in_module.dtype == torch.float32
        assert torch.equal(in_module, torch.tensor(got, dtype=torch.float32))


def test_given_slopes_leave_heads_without_a_bias() -> None:
    """ALiBi on two of four heads is ALiBi(2) there, and plain attention on the others; 1200 tokens have a reach."""
    half, at = ALiBi(4, slopes=[*slopes(2), 0, 0]), arange(1200)
    q, k, v = torch.randn(3, 1, 4, 1200, 8, dtype=torch.float64)
    y = attention(q, k, v, half.at(at, dtype=torch.float64), causal=True)
    first = attention(q[:, :2], k[:, :2], v[:, :2], ALiBi(2).at(at, dtype=torch.float64), causal=True)
    others = attention(q[:, 2:], k[:, 2:], v[:, 2:], NoPE().at(at), causal=True)
    torch.testing.assert_close(y, torch.cat((first, others), dim=1), rtol=0, atol=1e-12)
    assert half.describe() == "ALiBi: 4 heads with slopes 0.0625, 0.00390625, 0, 0"
    assert "slopes=(0.0625, 0.00390625, 0, 0)" in repr(half.with_settings(slopes=(0.0625, 0.00390625, 0, 0)))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"slopes": (0.5,)},
            r"slopes=\(0.5,\) must be a list of 2 finite numbers of at least 0, one per head; 0 for no bias",
        ),
        ({"slopes": (0.5, -0.5)}, "must be a list of 2 finite numbers"),
        ({"slopes": (0.5, float("nan"))}, "must be a list of 2 finite numbers"),
        ({"slopes": 0.5}, "must be a list of 2 finite numbers"),
        ({"slopes": (0.5, 0), "max_exponent": 4}, "max_exponent=4 and slopes were both given; pass one"),
    ],
)
def test_slopes_that_are_none_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ALiBi(2, **settings)


def test_the_bias_is_a_penalty_on_both_sides() -> None:
    bias = alibi_bias(8, 5)
    assert bias.shape == (8, 5, 5)
    assert torch.equal(bias, bias.mT)
    assert not bias.diagonal(dim1=1, dim2=2).any()
    assert bias[0, 0].tolist() == [0, -0.5, -1, -1.5, -2]
    assert (bias[:, 0].diff(dim=-1) < 0).all(), "further is less, also into the future"


def test_the_first_heads_of_a_query_prefer_what_is_near() -> None:
    """With q·k = 0 the bias alone decides: weights are exp(−m·distance), the same to either side."""
    q, v = torch.zeros(1, 4, 9, 2, dtype=torch.float64), torch.eye(9, dtype=torch.float64).expand(1, 4, 9, 9)
    weights = attention(q, q, v, ALiBi(4).at(arange(9)))
    want = (-torch.tensor(LISTS[4])[:, None] * torch.tensor([4, 3, 2, 1, 0, 1, 2, 3, 4])).double().softmax(-1)
    torch.testing.assert_close(weights[0, :, 4], want, rtol=0, atol=1e-12)


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
    assert bias is not None
    assert (bias.toeplitz is not None) == straight
    T, S = q_positions.shape[-1], k_positions.shape[-1]
    want = reference.Slopes(reference.slopes(4)).bias(q_positions.view(-1), k_positions.view(-1))
    assert torch.equal(bias.rows(0, T, S)[0], want.float())
    if bias.toeplitz is not None:
        assert bias.toeplitz.shape == (4, S + T - 1)
        for t in range(T):
            start = S - 1 - (S - T + t)
            assert torch.equal(bias.toeplitz[:, start : start + S], want[:, t].float())


def test_distances_are_exact_below_two_to_the_24() -> None:
    far = torch.tensor([0, 2**24 - 1])
    bias = ALiBi(8).at(far).bias
    assert bias is not None
    assert bias.rows(0, 2, 2)[0, 0, 0, 1].item() == -(2**24 - 1) / 2
