"""Runs the native kernel with each instruction set, any size of the last-level cache, and any number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from posenc import Rotary, positions
from posenc.kernels import native
from posenc.kernels.backend import by_name
from posenc.kernels.rotary.by_native import SHARE, by_native

LEVELS = ("baseline", "avx2", "avx512")
"""The instruction sets in the order of their numbers in the library."""


@contextmanager
def at_level(level: str) -> Iterator[None]:
    """Make the kernel use this instruction set, or skip the test if this processor lacks the instruction set."""
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
    """Make the kernel assume this size of the last-level cache, so that larger results bypass the caches."""
    before = native.load().posenc_use_cache(size)
    try:
        yield
    finally:
        native.load().posenc_use_cache(before)


def aligned(x: Tensor) -> Tensor:
    """Return a tensor of NaN like x, whose memory begins at a multiple of 64 bytes, as streamed results need."""
    room = torch.full((x.numel() + 64,), float("nan"), dtype=x.dtype)
    first = -room.data_ptr() % 64 // x.element_size()
    return room[first : first + x.numel()].view(x.shape)


def large() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return an input that is large enough for several threads, with its tables."""
    x = torch.randn(2, 4, 1024, 64)
    assert x.nbytes >= 4 * SHARE
    return x, *Rotary(64, pairing="half").tables(positions.arange(1024))


def by_threads(threads: int, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate x with this number of kernel threads, without torch's own threads, which do not survive a fork."""
    y = torch.empty_like(x)
    torch.set_num_threads(threads)
    by_native(x, cos, sin, "half", y)
    torch.set_num_threads(1)
    return y


def forget_the_library() -> None:
    for answer in (native.load, native.lacking, by_name):
        answer.cache_clear()
