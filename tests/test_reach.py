"""Heads whose bias falls so fast that far keys have no weight leave those out, and nobody can tell."""

from functools import partial

import pytest
import torch
from torch import Tensor

import posenc
from posenc import Mask, Placed, attention, explain, scores
from posenc.encodings.alibi import LinearBias
from posenc.positions import arange
from support.operators import Operators

HEADS, D = 8, 16


def hostile(S: int, T: int, size: float, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Far keys along the queries and near ones against them, as long as each other: the bound is reached."""
    generator = torch.Generator().manual_seed(0)
    along = torch.randn(1, 1, 1, D, generator=generator, dtype=torch.float64)
    along = size * along / along.norm(dim=-1, keepdim=True)
    signs = torch.where(torch.arange(S) < S // 2, 1.0, -1.0)[:, None]
    v = torch.randn(1, groups, S, D, generator=generator, dtype=torch.float64)
    v[:, :, : S // 4] *= 1e3
    return along.repeat(1, HEADS, T, 1), (along * signs).repeat(1, groups, 1, 1), v


@pytest.mark.parametrize(
    ("S", "size", "groups"), [(1100, 0.0, 8), (1100, 4.0, 4), (1500, 9.0, 8), (1500, 300.0, 4)]
)
def test_what_is_left_out_changes_nothing(S: int, size: float, groups: int) -> None:
    T = 1050
    q, k, v = (x.requires_grad_() for x in hostile(S, T, size, groups))
    placed = posenc.ALiBi(HEADS).at(arange(S)[-T:], arange(S), dtype=torch.float64)
    assert (explain(q, k, v, placed, causal=True).backend == "reach") == (size < 100)
    weight = torch.randn(1, HEADS, T, D, dtype=torch.float64)
    results = []
    for way in ("auto", "toeplitz"):
        y = attention(q, k, v, placed, causal=True, backend=way)
        results.append([y, *torch.autograd.grad((y * weight).sum(), (q, k, v))])
    for got, want in zip(*results, strict=True):
        # v up to some thousands, gradients sums of a thousand rows; one key lost is 1e-3 of a row and more.
        torch.testing.assert_close(got, want, rtol=0, atol=2e-14 * (1 + want.abs().max().item()))
    dense = scores(q, k, placed, causal=True).softmax(-1) @ v.repeat_interleave(HEADS // groups, 1)
    # A score's rounding, D products of q and k long, moves its weight alike, and a row is a sum of S weights.
    rounding = ((D + 2) * size**2 / D**0.5 + S) * torch.finfo(torch.float64).eps
    torch.testing.assert_close(results[0][0], dense, rtol=0, atol=2 * rounding * v.abs().max().item())


def test_slopes_may_be_trained() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 4, 1050, 8, dtype=torch.float64)
    slopes, at = torch.tensor([2.0, 1.0, 0.5, 0.001], dtype=torch.float64, requires_grad=True), arange(1050)
    gradients = []
    for way in ("auto", "toeplitz"):
        placed = Placed(at, at, bias=LinearBias(slopes, at, at))
        assert (explain(q, k, v, placed, causal=True, backend=way).backend == "reach") == (way == "auto")
        y = attention(q, k, v, placed, causal=True, backend=way)
        gradients.append(torch.autograd.grad(y.square().sum(), slopes))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-9)


def test_a_head_costs_what_it_reaches() -> None:
    q, k, v = torch.randn(3, 1, HEADS, 2048, D)
    placed, counts = posenc.ALiBi(HEADS, max_exponent=4).at(arange(2048)), []
    with torch.no_grad():
        for way in ("auto", "toeplitz"):
            with Operators() as counter:
                attention(q, k, v, placed, causal=True, backend=way)
            counts.append(counter.scores)
    assert counts[0] < 0.6 * counts[1]


def test_where_it_is_not_known_or_worth_it_all_keys_are_seen() -> None:
    q, k, v = torch.randn(3, 1, HEADS, 1100, D)
    at = arange(1100)
    placed, holes = posenc.ALiBi(HEADS).at(at), at[None] % 9 > 0
    rising, level = (LinearBias(torch.full((HEADS,), slope), at, at) for slope in (-2.0, 0.0))
    for call in (
        partial(explain, q, k, v, placed),
        partial(explain, q, k, v, placed, causal=True, window=700),
        partial(explain, q, k, v, placed, Mask(causal=True, key_mask=holes)),
        partial(explain, q, k, v, placed, causal=True, dropout=0.1),
        partial(explain, q * torch.inf, k, v, placed, causal=True),
        partial(explain, q, k, v, posenc.ALiBi(HEADS).at(at * 2), causal=True),
        partial(explain, q, k, v, Placed(at, at, bias=rising), causal=True),
        partial(explain, q, k, v, Placed(at, at, bias=level), causal=True),
        partial(explain, q, k, v, posenc.Kerple(HEADS).at(at), causal=True),
    ):
        assert call().backend != "reach", call


def test_sums_of_rows_lose_nothing() -> None:
    q, k, v = torch.randn(3, 1, HEADS, 1100, D, dtype=torch.float64)
    placed = posenc.ALiBi(HEADS).at(arange(1100), dtype=torch.float64)
    _, sums = attention(q, k, v, placed, causal=True, return_logsumexp=True)
    torch.testing.assert_close(sums, scores(q, k, placed, causal=True).logsumexp(-1), rtol=0, atol=1e-13)
    assert explain(q, k, v, placed, causal=True, return_logsumexp=True).backend == "reach"
