"""Positions: rows, padding, packing, shards, grids, and text, pictures and videos in one sequence."""

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from math import prod
from random import Random
from typing import Any

import torch
from tools.campaign.core import Area, Case
from tools.campaign.oracles import positions as oracle
from torch import Tensor

from posenc import positions
from posenc.laws.law import owed


class PositionCase(Case):
    """One call of one function."""

    def judge(self) -> None:
        _, ours, theirs = CALLS[self.call]
        got, want = plain(ours(*self.given)), theirs(*self.given)
        owed(got == want, f"{self.call} is {got}; expected {want}")


def plain(value: Any) -> Any:
    """Tensors as lists, whichever tuples they stand in."""
    if isinstance(value, Tensor):
        owed(value.dtype in (torch.int64, torch.bool), f"it is {value.dtype}")
        return value.tolist()
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def draw_spans(r: Random) -> tuple[Any, ...]:
    family = r.choice(sorted(oracle.FAMILIES))
    merge, frames, _, whole = oracle.FAMILIES[family]
    spans: list[tuple] = []
    for _ in range(r.randrange(1, 6)):
        sides = [merge * r.randrange(1, 5) for _ in range(2)]
        seconds = r.choice((Fraction(1, 2), Fraction(1), Fraction(1, 3), Fraction(7, 5), Fraction(1, 24)))
        video = ("video", frames * r.randrange(1, 7), *sides, seconds)
        spans.append(r.choice((("text", r.randrange(1, 9)), ("image", *sides), *[video] * whole)))
    return spans, family, r.choice((0, 0, 17))


def multimodal(spans: list[tuple], family: str, start: int) -> tuple[Tensor, int]:
    kinds = {"text": positions.Text, "image": positions.Image, "video": positions.Video}
    return positions.multimodal([kinds[kind](*sizes) for kind, *sizes in spans], family, start=start)


def draw_shape(r: Random) -> list[int]:
    return [r.randrange(1, 6) for _ in range(r.choice((1, 2, 2, 3)))]


def draw_grid(r: Random) -> tuple[Any, ...]:
    shape = draw_shape(r)
    return shape, [r.randrange(-9, 9) for _ in shape], [r.randrange(-3, 9) for _ in shape]


def draw_lengths(r: Random) -> tuple[list[int]]:
    return ([r.randrange(1, 7) for _ in range(r.randrange(1, 7))],)


def draw_mask(r: Random) -> tuple[list[list[bool]]]:
    n = r.randrange(1, 9)
    return ([[r.random() < 0.6 for _ in range(n)] for _ in range(r.randrange(1, 4))],)


def draw_shards(r: Random) -> tuple[Any, ...]:
    ranks, zigzag = r.randrange(1, 6), r.random() < 0.5
    return r.randrange(1, 6) * ranks * (2 if zigzag else 1), r.randrange(ranks), ranks, zigzag


def rows(lengths: list[int]) -> list[Tensor]:
    """Sequences of two coordinates a token."""
    return [torch.stack((torch.arange(n), 100 + torch.arange(n))) for n in lengths]


Call = tuple[Callable[[Random], tuple[Any, ...]], Callable[..., Any], Callable[..., Any]]
CALLS: dict[str, Call] = {
    "left_padded": (draw_mask, lambda mask: positions.left_padded(torch.tensor(mask)), oracle.left_padded),
    "packed": (draw_lengths, positions.packed, oracle.packed),
    "from_cu_seqlens": (
        draw_lengths,
        lambda lengths: positions.from_cu_seqlens(torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)),
        oracle.packed,
    ),
    "sharded": (
        draw_shards,
        lambda length, rank, ranks, zigzag: positions.sharded(length, rank, ranks, zigzag=zigzag),
        oracle.sharded,
    ),
    "grid": (
        draw_grid,
        lambda shape, corner, step: positions.grid(*shape, corner=corner, step=step),
        oracle.grid,
    ),
    "centred": (
        lambda r: (draw_shape(r),),
        lambda shape: positions.centred(*shape),
        lambda shape: oracle.grid(shape, [-((n + 1) // 2) for n in shape], [1] * len(shape)),
    ),
    "midpoints": (
        lambda r: (shape := draw_shape(r), r.randrange(1, 4) * prod(shape)),
        lambda shape, parts: positions.midpoints(*shape, parts=parts),
        oracle.midpoints,
    ),
    "multimodal": (draw_spans, multimodal, oracle.multimodal),
    "left_padded_rows": (
        draw_lengths,
        lambda lengths: positions.left_padded_rows(rows(lengths)),
        oracle.left_padded_rows,
    ),
    "packed_rows": (draw_lengths, lambda lengths: positions.packed_rows(rows(lengths)), oracle.packed_rows),
}
"""How the arguments of every function are drawn, how it is called, and what it is held to."""


def draw(r: Random) -> PositionCase:
    """A call that the library's contracts admit."""
    call = r.choice(("multimodal", *CALLS))
    return PositionCase(call=call, given=CALLS[call][0](r))


AREA = Area("positions", "padded, packed, sharded, of grids, and of several kinds of content", draw)
