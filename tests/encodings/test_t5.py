"""T5's buckets in whole numbers, its table under every type, and a learned line."""

import copy

import pytest
import torch

from posenc import T5, OffsetBias, attention
from posenc.encodings.t5 import first_distances
from posenc.positions import arange


@pytest.mark.parametrize(("side", "furthest"), [(2, 2), (3, 9), (16, 9), (16, 128), (32, 20), (160, 800)])
def test_a_bucket_starts_where_its_logarithm_is_reached(side: int, furthest: int) -> None:
    """(n/e)^(N−e) ≥ (M/e)^j in whole numbers holds at the first distance and not one before it."""
    e = side // 2
    firsts = first_distances(side, furthest)
    assert firsts[:e] == list(range(e))
    for j, n in enumerate(firsts[e:]):
        assert n ** (side - e) * e**j >= furthest**j * e ** (side - e)
        assert j == 0 or (n - 1) ** (side - e) * e**j < furthest**j * e ** (side - e)


def test_buckets_of_both_sides() -> None:
    """Keys ahead have the upper half, whose first, distance 0 ahead, is never used; the last are open."""
    t5 = T5(1, two_sided=True)
    assert t5.bucket(torch.tensor([1, -1, 0, 128, -128, 10**9, -(10**9)])).tolist() == [17, 1, 0, 31, 15, 31, 15]
    assert t5.bucket(torch.arange(-1000, 1001)).unique().tolist() == [i for i in range(32) if i != 16]


def test_buckets_of_one_side() -> None:
    """All keys ahead have bucket 0, as the query itself."""
    t5 = T5(1)
    assert t5.bucket(torch.tensor([5, 1, 0, -1, -15, -16, -19, -113, -(2**31)])).tolist() == [
        *[0, 0, 0, 1, 15, 16, 17, 31, 31],
    ]
    assert t5.bucket(torch.arange(-200, 200)).unique().tolist() == list(range(32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_no_type_moves_a_bucket(dtype: torch.dtype) -> None:
    """Taken in bf16, 146 distances of WavLM's setting land in a neighbour; here buckets are integers throughout."""
    t5 = T5(2, buckets=320, max_distance=800, two_sided=True)
    want = t5.bucket(arange(1200))
    with torch.autocast("cpu"):
        assert torch.equal(copy.deepcopy(t5).to(dtype).bucket(arange(1200)), want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_bias_is_the_table_never_below_float32(dtype: torch.dtype) -> None:
    t5 = T5(2).to(dtype)
    with torch.autocast("cpu"):
        rows = t5.at(arange(200), dtype=torch.promote_types(dtype, torch.float32)).bias.rows(0, 200, 200)
    assert rows.dtype == torch.promote_types(dtype, torch.float32)
    want = t5.weight[t5.bucket(arange(200) - arange(200)[:, None])].movedim(-1, 0)
    assert torch.equal(rows[0], want.to(rows.dtype))


def test_without_gradients_the_table_lies_along_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block of it is made, although its parameter could learn."""
    t5, (q, k, v) = T5(2), torch.randn(3, 2, 2, 300, 8)
    placed = t5.at(arange(300))
    learning = attention(q, k, v, placed, causal=True)
    with torch.no_grad():
        monkeypatch.delattr(OffsetBias, "rows")
        without = attention(q, k, v, placed, causal=True)
    # Two ways to sum 300 float32 products of order one, as weights of 1 in all.
    torch.testing.assert_close(without, learning, rtol=0, atol=2e-6)
