"""T5's buckets in whole numbers, its table under every type, and gradients and memory of a learned line."""

import copy

import pytest
import torch
from torch import Tensor

from posenc import T5, Mask, OffsetBias, attention
from posenc.encodings.t5 import first_distances
from posenc.positions import arange, left_padded, packed
from support import reference
from support.memory import peak_bytes


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
    used = t5.bucket(torch.arange(-1000, 1001)).unique().tolist()
    assert used == [i for i in range(32) if i != 16]


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
        bias = t5.at(arange(200), dtype=torch.promote_types(dtype, torch.float32)).bias
        rows = bias.rows(0, 200, 200)
    assert rows.dtype == torch.promote_types(dtype, torch.float32)
    want = t5.weight[t5.bucket(arange(200) - arange(200)[:, None])].movedim(-1, 0)
    assert torch.equal(rows[0], want.to(rows.dtype))


def random(T: int = 300, heads: int = 2, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(3, 2, heads, T, 8, dtype=dtype)
    return q, k, v


def dense(t5: T5, q_at: Tensor, k_at: Tensor) -> Tensor:
    """The bias as its paper has it, from the table by plain indexing."""
    return t5.weight[t5.bucket(k_at[..., None, :] - q_at[..., :, None])].movedim(-1, -3)


@pytest.mark.parametrize(
    ("path", "two_sided"), [("line", True), ("packed", False), ("padded", False), ("cached", True)]
)
def test_gradients_reach_the_table_on_every_path(path: str, two_sided: bool) -> None:
    """Values and gradients of q, k, v and the table equal dense float64 attention's."""
    t5 = T5(2, two_sided=two_sided, std=1.0).double()
    q, k, v = (x.requires_grad_() for x in random())
    at, mask, seen = arange(300), Mask(causal=not two_sided), reference.visible(300, 300, causal=not two_sided)
    if path == "packed":
        at, segments = packed([120, 7, 173])
        mask = Mask(causal=not two_sided, q_segments=segments)
        seen = seen & (segments == segments[:, None])
    if path == "padded":
        keys = torch.ones(2, 300, dtype=torch.bool)
        keys[0, :40] = False
        at = left_padded(keys)
        mask, seen = Mask(causal=not two_sided, key_mask=keys), seen & keys[:, None, None]
    q_at = at
    if path == "cached":
        q, q_at, seen = q[:, :, -10:].detach().requires_grad_(), at[-10:], seen[-10:]
    placed = t5.at(q_at, at, dtype=torch.float64)
    y = attention(q, k, v, placed, mask, scale=1.0)
    want = reference.attention(q, k, v, dense(t5, q_at, at), seen, scale=1.0)
    weight = torch.randn_like(y)
    if path == "padded":
        y, want = (torch.where(keys[:, None, :, None], x, 0.0) for x in (y, want))
    torch.testing.assert_close(y, want, rtol=0, atol=1e-12)
    got, goal = (torch.autograd.grad((x * weight).sum(), (q, k, v, t5.weight)) for x in (y, want))
    for mine, theirs in zip(got, goal, strict=True):
        # A table's gradient adds up to 2·300·300 terms of 1e-16 each.
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


def test_without_gradients_the_table_lies_along_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block of it is made, although its parameter could learn."""
    t5, (q, k, v) = T5(2), random(dtype=torch.float32)
    placed = t5.at(arange(300))
    learning = attention(q, k, v, placed, causal=True)
    with torch.no_grad():
        monkeypatch.delattr(OffsetBias, "rows")
        without = attention(q, k, v, placed, causal=True)
    # Two ways to sum 300 float32 products of order one, as weights of 1 in all.
    torch.testing.assert_close(without, learning, rtol=0, atol=2e-6)


def test_training_memory_grows_linearly() -> None:
    """Twice the length takes about twice the memory, where a dense bias and its gradient would take four times."""

    def step(length: int) -> int:
        t5 = T5(4)
        q, k, v = (x.requires_grad_() for x in torch.randn(3, 1, 4, length, 16))

        def train() -> Tensor:
            loss = attention(q, k, v, t5.at(arange(length)), causal=True).square().mean()
            return torch.autograd.grad(loss, t5.weight)[0]

        return peak_bytes(train)

    half, whole = step(1024), step(2048)
    assert whole < 2.2 * half
    # A block of 256 rows holds scores, weights, bias, buckets and their gradients, not 2048 rows of anything.
    assert whole < 4 * 2048 * 2048 * 4
