"""Known numbers and refusals of Shaw, Inkling, Transformer-XL, DeBERTa and CoPE."""

import math

import pytest
import torch
from torch import Tensor

from posenc import CoPE, DeBERTa, Encoding, Inkling, Mask, Shaw, attention, scores
from posenc.errors import InvalidArgument
from posenc.positions import arange


def row(e: Encoding, q: Tensor, k: Tensor, at: int) -> list[float]:
    """The scores of the query at this position."""
    return scores(q, k, e.at(arange(q.shape[2])), Mask(causal=True))[0, 0, at].tolist()


def test_shaw_knows_offsets_between_its_ends() -> None:
    """Rows 1 … 4 for the offsets −2 … 1, read by a query of one channel."""
    shaw = Shaw(1, 1, behind=2, ahead=1)
    with torch.no_grad():
        shaw.weight.copy_(torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
    q, k = torch.full((1, 1, 5, 1), 10.0), torch.zeros(1, 1, 5, 1)
    assert scores(q, k, shaw.at(arange(5)))[0, 0, 3].tolist() == [10, 10, 20, 30, 40]
    assert scores(q, k, shaw.at(arange(5)), scale=0.5)[0, 0, 0].tolist() == [15, 20, 20, 20, 20]


def with_unit_curves(extent: int) -> Inkling:
    """Curve e_n for distance n, and a token that says n for it: the bias is r[n]."""
    inkling = Inkling(extent, 1, extent=extent, basis=extent)
    with torch.no_grad():
        inkling.curves.copy_(torch.eye(extent))
        inkling.weight.copy_(torch.eye(extent))
    return inkling


def test_inkling_ends_where_its_extent_does() -> None:
    """Distance extent − 1 has a number, distance extent none; what lies ahead is hidden."""
    x = torch.tensor([7.0, 8.0, 9.0]).expand(1, 6, 3)
    here, state = with_unit_curves(3).at(arange(6)).with_content(x)
    nothing = torch.zeros(1, 1, 6, 2)
    assert scores(nothing, nothing, here, causal=True)[0, 0, 4].tolist() == [0, 0, 9, 8, 7, -math.inf]
    assert state is None


@pytest.mark.parametrize(("at", "factor"), [(0, 1.0), (127_999, 1.0), (1_048_575, 1.2103158)])
def test_inkling_scales_far_rows_with_their_bias(at: int, factor: float) -> None:
    inkling = Inkling(2, 1, extent=1, basis=1, log_floor=128_000)
    with torch.no_grad():
        inkling.curves.fill_(3.0)
        inkling.weight.fill_(1.0)
    here, _ = inkling.at(torch.tensor([at])).with_content(torch.ones(1, 1, 2))
    q = torch.ones(1, 1, 1, 4)
    assert scores(q, q, here).item() == pytest.approx(factor * (4 / 2 + 3 * 2), rel=2e-7)
    assert inkling.acts_on == ("bias", "scale")
    assert not inkling.relative


def test_inkling_reads_each_token_once_and_carries_nothing() -> None:
    inkling, x = Inkling(6, 2, extent=4, basis=3), torch.randn(1, 8, 6)
    q, k, v = torch.randn(3, 1, 2, 8, 4)
    whole = attention(q, k, v, inkling.at(arange(8)).with_content(x)[0], causal=True)
    last = inkling.at(arange(1, offset=7), arange(8)).with_content(x[:, 7:])[0]
    torch.testing.assert_close(attention(q[:, :, 7:], k, v, last, causal=True), whole[:, :, 7:], rtol=0, atol=2e-6)


def test_debertas_buckets() -> None:
    """Query − key; both sides end in different rows."""
    bucket = DeBERTa(1, 1).bucket
    ends = {128: 128, 129: 129, 200: 169, 256: 192, 300: 207, 400: 233, 510: 255, 512: 256, 600: 256}
    for distance, size in ends.items():
        behind, ahead = bucket(torch.tensor([-distance, distance])).tolist()
        assert (behind, ahead) == (min(256 + size, 511), 256 - size), distance
    assert bucket(torch.tensor([0, -1, 1, -(2**31), 2**31])).tolist() == [256, 257, 255, 511, 0]


def test_cope_counts_both_ends() -> None:
    """Scores of zero open every gate by half: five keys count .5, 1 … 2.5 from the query back."""
    cope = CoPE(1, 1, positions=4)
    with torch.no_grad():
        cope.weight.copy_(torch.tensor([[0.0], [10.0], [20.0], [30.0]]))
    q = torch.ones(1, 1, 5, 1)
    assert row(cope, q, torch.zeros(1, 1, 5, 1), 4) == [25, 20, 15, 10, 5]
    assert row(cope, q, torch.full((1, 1, 5, 1), 50.0), 4) == [80, 80, 80, 70, 60], "clamped at its last row"


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


def test_cope_counts_along_the_order_of_tokens() -> None:
    cope, order = CoPE(4, 2, positions=6, std=1.0).double(), torch.tensor([4, 0, 3, 1, 5, 2])
    q, k, v = torch.randn(3, 1, 2, 6, 4, dtype=torch.float64)
    whole = attention(q, k, v, cope.at(arange(6), dtype=torch.float64), causal=True)
    mask = Mask(causal=True, q_order=order, k_order=order)
    mixed = attention(*(x[:, :, order] for x in (q, k, v)), cope.at(order, dtype=torch.float64), mask)
    torch.testing.assert_close(mixed, whole[:, :, order], rtol=0, atol=1e-12)


def test_what_counts_by_scores_says_what_it_lacks() -> None:
    bias = CoPE(4, 2).at(arange(3)).bias
    assert bias is not None
    with pytest.raises(InvalidArgument, match="this bias is made from scores: call"):
        bias.rows(0, 3, 3)
