"""The native kernel with each instruction set, a last cache of any size, and any number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from posenc import Rotary, positions
from posenc.kernels import native
from posenc.kernels.rotary.by_native import SHARE, by_native

LEVELS = ("baseline", "avx2", "avx512")
"""In the order in which the library numbers them."""


@contextmanager
def at_level(level: str) -> Iterator[None]:
    """The kernel computes with these instructions; skipped where this processor lacks them."""
    library, before = native.load(), LEVELS.index(native.level())
    if library.posenc_use_level(LEVELS.index(level)):
        pytest.skip(f"this processor has no {level}")
    try:
        assert native.level() == level
        yield
    finally:
        library.posenc_use_level(before)


@contextmanager
def cache_of(size: int) -> Iterator[None]:
    """The kernel takes the last cache to be so large: results that do not fit go past the caches."""
    before = native.load().posenc_use_cache(size)
    try:
        yield
    finally:
        native.load().posenc_use_cache(before)


def aligned(x: Tensor) -> Tensor:
    """Memory of the kind of x that begins at a multiple of 64 bytes, as streamed results must; full of NaN."""
    room = torch.full((x.numel() + 64,), float("nan"), dtype=x.dtype)
    first = -room.data_ptr() % 64 // x.element_size()
    return room[first : first + x.numel()].view(x.shape)


def large() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What several threads share, with its tables."""
    x = torch.randn(2, 4, 1024, 64)
    assert x.nbytes >= 4 * SHARE
    return x, *Rotary(64, pairing="half").tables(positions.arange(1024))


def by_threads(threads: int, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x rotated by so many threads of the kernel. torch's own do not survive a fork, and are not asked for."""
    y = torch.empty_like(x)
    torch.set_num_threads(threads)
    by_native(x, cos, sin, "half", y)
    torch.set_num_threads(1)
    return y
