"""Whether results of the native rotation go past the caches: measured by ``posenc tune``, and kept.

A store past the caches saves reading the memory it goes to; whether that pays differs between processors, and
with the type and the pairing. It changes no bit.
"""

import json
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

from posenc.kernels.timing import race

TYPES = (torch.float32, torch.bfloat16, torch.float16)

Way = tuple[str, torch.dtype]
"""A pairing and a type."""

Timed = Callable[[Tensor, Tensor, Tensor, str, bool], None]
"""``run(x, y, table, pairing, stream)``: x rotated into y."""


def measure(run: Timed, megabytes: int = 24, rounds: int = 7) -> list[Way]:
    """The ways that are faster past the caches, by the least of several runs; some tenths of a second."""
    faster = []
    for dtype in TYPES:
        x = torch.ones(1, 8, (megabytes << 20) // (8 * 128 * dtype.itemsize), 128, dtype=dtype)
        y, table = torch.zeros_like(x), torch.ones(x.shape[2], 64)
        for pairing in ("half", "interleaved"):
            once = partial(run, x, y, table, pairing)
            seconds = race({"kept": partial(once, False), "past": partial(once, True)}, rounds)
            if seconds["past"] < seconds["kept"]:
                faster.append((pairing, dtype))
    return faster


def is_measured(library: Path) -> bool:
    """Whether a record lies beside the library."""
    return _record(library).is_file()


def keep(library: Path, faster: Iterable[Way]) -> None:
    """Write the ways beside the library."""
    record = [[pairing, str(dtype).removeprefix("torch.")] for pairing, dtype in faster]
    _record(library).write_text(json.dumps(record), encoding="utf-8")
    streams.cache_clear()


@cache
def streams(library: Path, pairing: str, dtype: torch.dtype) -> bool:
    """Whether this way was measured to be faster past the caches; not where nothing was measured."""
    try:
        ways = json.loads(_record(library).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return [pairing, str(dtype).removeprefix("torch.")] in ways


def _record(library: Path) -> Path:
    return library.with_suffix(".json")
