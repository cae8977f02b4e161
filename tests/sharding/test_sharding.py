"""A layer cut over real processes gives what it gives whole, forward and backward."""

import pytest

import posenc
from support.sharding_ranks import TEXTS, run

JOBS = [(way, name, i % 2 == j) for i, name in enumerate(TEXTS) for j, way in enumerate(("gathered", "ring"))]
"""Each encoding is cut in one piece in one of both ways, and in a zig-zag in the other."""
OTHERS = [(way, name, not zigzag) for way, name, zigzag in JOBS]
JOBS += [("masks", kind, True) for kind in ("padding", "documents", "window", "chunks", "dense")]
JOBS += [("refused", "", True)]


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_give_what_the_whole_layer_gives(ranks: int) -> None:
    run(ranks, JOBS if ranks == 2 else [*JOBS, *OTHERS])


def test_places_of_a_rank() -> None:
    assert posenc.positions.sharded(8, 1, 2).tolist() == [4, 5, 6, 7]
    assert posenc.positions.sharded(8, 1, 2, zigzag=True).tolist() == [2, 3, 4, 5]
    assert posenc.positions.sharded(8, 0, 2, zigzag=True).tolist() == [0, 1, 6, 7]
