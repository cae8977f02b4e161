"""Position tensors: what they hold, what they cost, and what is refused."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc
from posenc.errors import InvalidArgument, PositionOutOfRange
from posenc.laws.effects import effects
from posenc.laws.law import same
from posenc.positions import (
    LIMIT,
    Image,
    Text,
    Video,
    arange,
    check,
    coupled,
    grid,
    left_padded,
    left_padded_rows,
    midpoints,
    multimodal,
    packed,
    packed_rows,
    pose,
    randomised,
    sharded,
)
from support.cases import TIERS, Case


@given(st.integers(0, 50), st.integers(0, LIMIT - 50))
def test_plain_counts_from_its_offset(length: int, offset: int) -> None:
    at = arange(length, offset=offset)
    assert at.dtype == torch.int64
    assert at.tolist() == list(range(offset, offset + length))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1, max_size=4))
def test_left_padded_counts_real_tokens_of_each_row(rows: list[tuple[int, int]]) -> None:
    longest = max(padding + real for padding, real in rows)
    masks = [[False] * (longest - real) + [True] * real for _, real in rows]
    at = left_padded(torch.tensor(masks, dtype=torch.bool).view(len(rows), longest))
    assert at.dtype == torch.int64
    assert at.tolist() == [[0] * (longest - real) + list(range(real)) for _, real in rows]


@given(st.lists(st.integers(1, 9), max_size=6))
def test_packed_starts_every_document_at_zero(lengths: list[int]) -> None:
    at, segments = packed(lengths)
    assert at.dtype == segments.dtype == torch.int64
    assert at.tolist() == [p for length in lengths for p in range(length)]
    assert segments.tolist() == [i for i, length in enumerate(lengths) for _ in range(length)]


@pytest.mark.parametrize("case", TIERS, ids=str)
def test_int32_positions_are_those_positions(case: Case) -> None:
    """Widened before anything is computed with them: bit for bit, at the last position too."""
    at = case.plain(9, case.declared.position_limit - 9)
    same(effects(case, case.build(), at.int()), effects(case, case.build(), at), "in int32")
    assert case.build().at(at.int(), at).q_positions.dtype == torch.int64


def test_cached_keys_move_from_and_to_int32_positions() -> None:
    rotary, at = posenc.Rotary(8, pairing="half"), arange(9, offset=LIMIT - 40)
    k = torch.randn(1, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    moved = posenc.rerotate(k, at.int(), rotary, rotary, (at + 31).int())
    assert torch.equal(moved, posenc.rerotate(k, at, rotary, rotary, at + 31))


@given(st.integers(1, 40), st.integers(0, 500), st.integers(1, 5), st.integers(0, 99))
def test_drawn_positions_ascend_within_their_range(T: int, more: int, chunks: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for at in (randomised(T, T + more, generator), pose(T, T + more, min(chunks, T), generator)):
        assert (at.dtype, at.shape) == (torch.int64, (T,))
        assert (at.diff() > 0).all()
        assert at[0] >= 0
        assert at[-1] < T + more
    assert at[0] == 0
    assert (at.diff() > 1).sum() < min(chunks, T)


def near_counts(numbers: list[int], expected: list[float]) -> bool:
    """Whether counts are within five standard deviations of a binomial's means."""
    total = sum(numbers)
    return all(
        abs(n - e * total) <= 5 * (total * e * (1 - e)) ** 0.5 for n, e in zip(numbers, expected, strict=True)
    )


@pytest.mark.parametrize("up_to", [8, 20])
def test_every_set_of_positions_is_as_likely(up_to: int) -> None:
    """Position p is the i-th of T with probability C(p, i)·C(N−1−p, T−1−i)/C(N, T), by either way of drawing."""
    T, draws, generator = 3, 4000, torch.Generator().manual_seed(0)
    drawn = torch.stack([randomised(T, up_to, generator) for _ in range(draws)])
    for i in range(T):
        counts = torch.bincount(drawn[:, i], minlength=up_to).tolist()
        ways = [math.comb(p, i) * math.comb(up_to - 1 - p, T - 1 - i) for p in range(up_to)]
        assert near_counts(counts, [way / math.comb(up_to, T) for way in ways])


def test_pose_cuts_anywhere_and_skips_uniformly() -> None:
    """Two chunks: the cut is uniform in 1 … T−1, the skip in 0 … N−T; of three, the last given the second."""
    T, up_to, generator = 6, 14, torch.Generator().manual_seed(0)
    drawn = torch.stack([pose(T, up_to, 2, generator) for _ in range(2000)]) - torch.arange(T)
    skips = drawn[:, -1]
    assert near_counts(torch.bincount(skips, minlength=9).tolist(), [1 / 9] * 9)
    cuts = (drawn == 0).sum(1)[skips > 0]
    assert near_counts(torch.bincount(cuts, minlength=T)[1:].tolist(), [1 / 5] * 5)
    three = torch.stack([pose(T, up_to, 3, generator) for _ in range(3000)]) - torch.arange(T)
    first = torch.stack([x[x > 0][0] if (x > 0).any() else x[0] for x in three])
    last = three[:, -1][(first == 4) & (three[:, -1] > 4)]
    assert near_counts(torch.bincount(last, minlength=9)[5:].tolist(), [1 / 4] * 4)


def test_what_is_coupled_stays_so_under_a_start_of_its_row() -> None:
    """653 + 49 = 702, the sum reversed: digits of one significance share a position; starts are uniform."""
    groups = torch.tensor([3, 2, 1, 0, 2, 1, 0, 1, 2, 3])
    drawn = coupled(groups.expand(4000, -1), 9, torch.Generator().manual_seed(0)) - groups
    assert (drawn == drawn[:, :1]).all()
    assert near_counts(torch.bincount(drawn[:, 0], minlength=6).tolist(), [1 / 6] * 6)
    assert torch.equal(coupled(groups, 4), groups)


REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (
        lambda: arange(2, offset=LIMIT - 1),
        PositionOutOfRange,
        "offset=2147483647 with length=2 gives positions outside 0 … 2147483647",
    ),
    (lambda: arange(2, offset=-1), PositionOutOfRange, "offset=-1"),
    (lambda: arange(-1), InvalidArgument, "length=-1 must be at least 0"),
    (
        lambda: left_padded(torch.ones(2, 3, dtype=torch.int64)),
        InvalidArgument,
        r"mask is torch.int64 with shape \(2, 3\); expected bool \(B, T\), true for real tokens; pass mask.bool",
    ),
    (
        lambda: left_padded(torch.ones(3, dtype=torch.bool)),
        InvalidArgument,
        r"mask is torch.bool with shape \(3,\); expected bool \(B, T\), true for real tokens; pass mask\[None\]",
    ),
    (
        lambda: packed([2, 0]),
        InvalidArgument,
        r"lengths\[1\]=0 must be at least 1; omit empty documents",
    ),
    (lambda: packed(1024), InvalidArgument, "lengths is 1024; expected the length of every document, such as"),
    (
        lambda: check(torch.tensor([0.0])),
        InvalidArgument,
        "positions is torch.float32; positions must be exact integers: pass int64 or int32",
    ),
    (lambda: check(torch.tensor([0], dtype=torch.int16)), InvalidArgument, "positions is torch.int16"),
    (lambda: check(torch.tensor(0)), InvalidArgument, r"positions has shape \(\); expected \(T,\) or \(B, T\)"),
    (lambda: check(torch.zeros(1, 1, 1).long()), InvalidArgument, r"positions has shape \(1, 1, 1\)"),
    (
        lambda: check(torch.tensor([4, -3]), "k_positions"),
        PositionOutOfRange,
        "k_positions contains -3; the lowest allowed position is 0",
    ),
    (
        lambda: check(torch.tensor([[0, LIMIT]])),
        PositionOutOfRange,
        "positions contains 2147483648; the last position of this encoding is 2147483647",
    ),
    (
        lambda: check(torch.tensor([8]), limit=8),
        IndexError,
        "positions contains 8; the last position of this encoding is 7",
    ),
    (lambda: coupled(torch.tensor([-1, 3]), 4), PositionOutOfRange, "groups contains -1"),
    (lambda: coupled(torch.tensor([0, 4]), 4), InvalidArgument, r"up_to=4 must be above max\(groups\)=4"),
    (lambda: coupled(torch.zeros(2, 0).long(), 4), InvalidArgument, r"groups.numel\(\)=0 must be at least 1"),
    (lambda: randomised(5, 4), InvalidArgument, "up_to=4 must be between T=5"),
    (lambda: randomised(5, LIMIT + 1), InvalidArgument, "must be between"),
    (lambda: randomised(0, 4), InvalidArgument, "at least 1"),
    (lambda: pose(5, 4), InvalidArgument, "up_to=4 must be between T=5"),
    (lambda: pose(5, 9, 6), InvalidArgument, "chunks=6 must be at most T=5"),
    (lambda: pose(5, 9, 0), InvalidArgument, "chunks=0 must be at least 1"),
    (
        lambda: sharded(9, 0, 2, zigzag=True),
        InvalidArgument,
        "length=9 must be a multiple of 4 for 2 ranks; pad the sequence",
    ),
    (lambda: sharded(8, 2, 2), InvalidArgument, "rank=2 must be between 0 and ranks−1=1"),
    (lambda: grid(), InvalidArgument, r"shape=\(\) must be at least 1 on every axis"),
    (lambda: grid(2, 0), InvalidArgument, r"shape=\(2, 0\) must be at least 1 on every axis; omit empty images"),
    (lambda: grid(2, 2.5), InvalidArgument, r"shape\[1\]=2.5 must be an integer"),
    (
        lambda: grid(2, 2, corner=(1,)),
        InvalidArgument,
        r"corner=\(1,\) has 1 numbers for 2 axes; pass one number, or 2 numbers",
    ),
    (lambda: grid(2, 2, step=0.5), InvalidArgument, "step=0.5 must be an integer"),
    (
        lambda: midpoints(2, 3, parts=4),
        InvalidArgument,
        r"parts=4 must be a multiple of the number of cells on every axis, \(2, 3\)",
    ),
    (
        lambda: left_padded_rows([]),
        InvalidArgument,
        r"rows have shapes \[\]; expected at least one row, all of shape \(A, T\) with the same A",
    ),
    (
        lambda: packed_rows([grid(2), grid(2, 2)]),
        InvalidArgument,
        r"rows have shapes \[\(1, 2\), \(2, 4\)\]; expected",
    ),
    (
        lambda: multimodal([Text(0)], "qwen2-vl"),
        InvalidArgument,
        r"Text\(tokens=0\) has tokens=0, which must be at least 1; omit empty spans",
    ),
    (
        lambda: multimodal([Image(4, 5)], "qwen2-vl"),
        InvalidArgument,
        r"has columns=5, which must be a multiple of 2, because one token covers 2 columns; resize",
    ),
    (lambda: multimodal([Image(0, 4)], "qwen2-vl"), InvalidArgument, "has rows=0, which must be at least 1"),
    (
        lambda: multimodal([Video(3, 4, 4)], "ernie-4.5-vl"),
        InvalidArgument,
        "has frames=3, which must be a multiple of 2",
    ),
    (
        lambda: multimodal([Video(2, 4, 4)], "qwen2.5-vl"),
        InvalidArgument,
        "needs the duration of one frame after temporal patching",
    ),
    (lambda: multimodal([Video(2, 4, 4, seconds=0.0)], "qwen2.5-vl"), InvalidArgument, "a number above 0"),
    (lambda: multimodal([Video(2, 4, 4, seconds="1")], "qwen2.5-vl"), InvalidArgument, "a number above 0"),
    (lambda: multimodal(Text(3), "qwen2-vl"), InvalidArgument, r"spans is Text\(tokens=3\); expected a list, such"),
    (
        lambda: multimodal([Video(2, 4, 4, seconds=float("nan"))], "qwen2.5-vl"),
        InvalidArgument,
        "a number above 0",
    ),
    (
        lambda: multimodal([Video(2, 4, 4)], "qwen3-vl"),
        InvalidArgument,
        "cannot be one span, because this family puts text with a timestamp between frames",
    ),
    (lambda: multimodal([Text(1)], "qwen2vl"), InvalidArgument, "unknown counting 'qwen2vl'"),
    (
        lambda: multimodal([Text(1)], "qwen2-vl", start=-1),
        InvalidArgument,
        "start=-1 must be at least 0: it is the first position of the sequence",
    ),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_what_is_no_position_is_refused(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
