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
from posenc.positions import LIMIT, arange, check, coupled, left_padded, packed, pose, randomised
from support.cases import CASES, Case


@given(st.integers(0, 50), st.integers(0, LIMIT - 50))
def test_plain_counts_from_its_offset(length: int, offset: int) -> None:
    at = arange(length, offset=offset)
    assert at.dtype == torch.int64
    assert at.tolist() == list(range(offset, offset + length))


def test_plain_reaches_the_last_position_and_no_further() -> None:
    assert arange(2, offset=LIMIT - 2).tolist() == [LIMIT - 2, LIMIT - 1]
    with pytest.raises(
        PositionOutOfRange, match="offset=2147483647 with length=2 is outside the positions 0 … 2147483647"
    ):
        arange(2, offset=LIMIT - 1)
    with pytest.raises(PositionOutOfRange, match="offset=-1"):
        arange(2, offset=-1)
    with pytest.raises(InvalidArgument, match="length=-1 must not be negative"):
        arange(-1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1, max_size=4))
def test_left_padded_counts_real_tokens_of_each_row(rows: list[tuple[int, int]]) -> None:
    longest = max(padding + real for padding, real in rows)
    masks = [[False] * (longest - real) + [True] * real for _, real in rows]
    at = left_padded(torch.tensor(masks, dtype=torch.bool).view(len(rows), longest))
    assert at.dtype == torch.int64
    for row, (_, real) in zip(at.tolist(), rows, strict=True):
        assert row == [0] * (longest - real) + list(range(real))


@pytest.mark.usefixtures("unchecked")
def test_a_mask_is_bool_and_has_rows() -> None:
    with pytest.raises(InvalidArgument, match=r"mask is torch.int64 with shape \(2, 3\); expected bool \(B, T\)"):
        left_padded(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(InvalidArgument, match=r"mask is torch.bool with shape \(3,\)"):
        left_padded(torch.ones(3, dtype=torch.bool))


@given(st.lists(st.integers(1, 9), max_size=6))
def test_packed_starts_every_document_at_zero(lengths: list[int]) -> None:
    at, segments = packed(lengths)
    assert at.dtype == segments.dtype == torch.int64
    assert at.tolist() == [p for length in lengths for p in range(length)]
    assert segments.tolist() == [i for i, length in enumerate(lengths) for _ in range(length)]


def test_packed_refuses_empty_documents() -> None:
    with pytest.raises(InvalidArgument, match=r"lengths=\[2, 0\] must all be at least 1; omit empty documents"):
        packed([2, 0])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            torch.tensor([0.0]),
            "positions is torch.float32; positions are exact integers: pass int64 or int32",
        ),
        (torch.tensor([0], dtype=torch.int16), "positions is torch.int16"),
        (torch.tensor(0), r"positions has shape \(\); expected \(T,\) or \(B, T\)"),
        (torch.zeros(1, 1, 1, dtype=torch.int64), r"positions has shape \(1, 1, 1\)"),
    ],
)
def test_what_is_no_position_is_refused(wrong: torch.Tensor, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check(wrong)


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(PositionOutOfRange, match="k_positions holds -3; positions start at 0"):
        check(torch.tensor([4, -3]), "k_positions")
    with pytest.raises(
        PositionOutOfRange, match="positions holds 2147483648; the last position here is 2147483647"
    ):
        check(torch.tensor([[0, LIMIT]]))
    with pytest.raises(IndexError, match="positions holds 8; the last position here is 7"):
        check(torch.tensor([8]), limit=8)
    check(torch.tensor([], dtype=torch.int64))
    check(torch.tensor([0, LIMIT - 1]))


@pytest.mark.parametrize("case", CASES, ids=str)
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
    generator = torch.Generator().manual_seed(0)
    drawn = coupled(groups.expand(4000, -1), 9, generator) - groups
    assert (drawn == drawn[:, :1]).all()
    assert near_counts(torch.bincount(drawn[:, 0], minlength=6).tolist(), [1 / 6] * 6)
    assert torch.equal(coupled(groups, 4), groups)
    with pytest.raises(PositionOutOfRange, match="groups holds -1"):
        coupled(groups - 1, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: coupled(torch.tensor([0, 4]), 4), r"up_to=4 must be above max\(groups\)=4"),
        (lambda: randomised(5, 4), "up_to=4 must lie between T=5"),
        (lambda: randomised(5, LIMIT + 1), "must lie between"),
        (lambda: randomised(0, 4), "at least 1"),
        (lambda: pose(5, 4), "up_to=4 must lie between T=5"),
        (lambda: pose(5, 9, 6), "chunks=6 is more than T=5"),
        (lambda: pose(5, 9, 0), "chunks=0 must be at least 1"),
    ],
)
def test_ranges_that_cannot_be_drawn_from_are_refused(make: Callable[[], torch.Tensor], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()
