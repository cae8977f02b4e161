"""A layer cut over real processes gives what it gives whole, forward and backward."""

import pytest

import posenc
from posenc.errors import InvalidArgument
from support.sharding_ranks import TEXTS, run

JOINED = [("gathered", name, zigzag) for name in TEXTS for zigzag in (False, True)]
PASSED = [("ring", name, zigzag) for name in TEXTS for zigzag in (False, True)]
PASSED += [("refused", "", True)] + [
    ("masks", kind, True) for kind in ("padding", "documents", "window", "chunks", "dense")
]
SPLIT = [("heads", name, False) for name in TEXTS]


def test_two_ranks() -> None:
    run(2, [*JOINED, *PASSED, *SPLIT])


@pytest.mark.slow
def test_four_ranks() -> None:
    run(4, [*JOINED, *PASSED, *SPLIT])


def test_places_of_a_rank() -> None:
    assert posenc.positions.sharded(8, 1, 2).tolist() == [4, 5, 6, 7]
    assert posenc.positions.sharded(8, 1, 2, zigzag=True).tolist() == [2, 3, 4, 5]
    assert posenc.positions.sharded(8, 0, 2, zigzag=True).tolist() == [0, 1, 6, 7]
    with pytest.raises(InvalidArgument, match="length=9 must be a multiple of 4 for 2 ranks; pad it"):
        posenc.positions.sharded(9, 0, 2, zigzag=True)
    with pytest.raises(InvalidArgument, match="rank=2 must be between 0 and ranks−1=1"):
        posenc.positions.sharded(8, 2, 2)
