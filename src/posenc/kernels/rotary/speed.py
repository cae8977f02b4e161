"""How long rotation takes on this machine, natively and by plain operators, beside a copy of the same memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from posenc.kernels.rotary.by_native import by_native
from posenc.kernels.rotary.eager import blockwise
from posenc.kernels.timing import race


@dataclass(frozen=True)
class Timing:
    """Least seconds of several runs in turn, of one thread, into memory at hand."""

    dtype: torch.dtype
    pairing: str
    copy: float
    native: float
    eager: float


def timings(tokens: int, rounds: int = 7) -> Iterator[Timing]:
    """A timing for each type and pairing; 32 heads of 128 channels."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.ones(1, 32, tokens, 128, dtype=dtype)
            y, table = torch.zeros_like(x), torch.ones(tokens, 64)
            for pairing in ("half", "interleaved"):
                ways: dict[str, Callable[[], object]] = {
                    "copy": partial(y.copy_, x),
                    "native": partial(by_native, (x,), table, table, pairing, (y,)),
                    "eager": partial(blockwise, (x,), table, table, pairing, (y,)),
                }
                yield Timing(dtype, pairing, **race(ways, rounds))
    finally:
        torch.set_num_threads(before)
