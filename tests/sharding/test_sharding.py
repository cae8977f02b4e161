"""A layer cut over real processes gives what it gives whole, forward and backward."""

import pytest
import torch
import torch.distributed as dist

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


def test_a_ring_of_one_rank_has_the_gradients_of_attention() -> None:
    """Nothing is sent, so gradients must not be read from memory that another rank would have filled.

    Autocast leaves float64 unchanged, as in attention. Queries before all keys have outputs of zero.
    """
    at, leaves = torch.arange(8), torch.randn(3, 1, 2, 8, 4, dtype=torch.float64).requires_grad_()
    here, mask = posenc.ALiBi(2).at(at), posenc.Mask(causal=True, q_order=at, k_order=at)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            ring = torch.autograd.grad(posenc.ring_attention(*leaves, here, mask).square().sum(), leaves)
        assert not posenc.ring_attention(*leaves, here, mask.become(posenc.Mask, k_order=at + 8)).any()
    finally:
        dist.destroy_process_group()
    whole = torch.autograd.grad(posenc.attention(*leaves, here, causal=True).square().sum(), leaves)
    torch.testing.assert_close(ring, whole, rtol=0, atol=1e-12)


def test_places_of_a_rank() -> None:
    assert posenc.positions.sharded(8, 1, 2).tolist() == [4, 5, 6, 7]
    assert posenc.positions.sharded(8, 1, 2, zigzag=True).tolist() == [2, 3, 4, 5]
    assert posenc.positions.sharded(8, 0, 2, zigzag=True).tolist() == [0, 1, 6, 7]
