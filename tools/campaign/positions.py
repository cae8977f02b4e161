"""Positions: rows, padding, packing, shards, grids, and text, pictures and videos in one sequence."""

from collections.abc import Callable
from fractions import Fraction
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
        KINDS[self.kind][1](*self.given)


def equal(what: str, got: Tensor, want: Any) -> None:
    owed(got.dtype in (torch.int64, torch.bool), f"{what} is {got.dtype}")
    owed(got.tolist() == want, f"{what} is {got.tolist()}; expected {want}")


def _padded(rows: list[list[bool]]) -> None:
    equal("left_padded", positions.left_padded(torch.tensor(rows)), oracle.left_padded(rows))


def _packed(lengths: list[int], bounds: bool) -> None:
    at, segments = oracle.packed(lengths)
    cut = torch.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)], dtype=torch.int32)
    got = positions.from_cu_seqlens(cut) if bounds else positions.packed(lengths)
    equal("positions", got[0], at)
    equal("segments", got[1], segments)


def _sharded(size: int, ranks: int, zigzag: bool) -> None:
    length = size * ranks * (2 if zigzag else 1)
    rows = [positions.sharded(length, rank, ranks, zigzag=zigzag) for rank in range(ranks)]
    for rank, row in enumerate(rows):
        equal(f"rank {rank}", row, oracle.sharded(length, rank, ranks, zigzag))
    equal("all ranks", torch.cat(rows).sort().values, list(range(length)))


def _grid(shape: list[int], corner: list[int], step: list[int]) -> None:
    equal("grid", positions.grid(*shape, corner=corner, step=step), oracle.grid(shape, corner, step))
    around = [-((n + 1) // 2) for n in shape]
    equal("centred", positions.centred(*shape), oracle.grid(shape, around, [1] * len(shape)))


def _midpoints(shape: list[int], more: int) -> None:
    parts = more
    for n in shape:
        parts *= n
    equal("midpoints", positions.midpoints(*shape, parts=parts), oracle.midpoints(shape, parts))


def _multimodal(spans: list[tuple], family: str, start: int) -> None:
    kinds = {"text": positions.Text, "image": positions.Image, "video": positions.Video}
    got, after = positions.multimodal([kinds[kind](*sizes) for kind, *sizes in spans], family, start=start)
    want, next_one = oracle.multimodal(spans, family, start)
    equal("positions", got, want)
    owed(after == next_one, f"the next position is {after}; expected {next_one}")


def _batched(lengths: list[int], axes: int) -> None:
    rows = [[[100 * a + i for i in range(n)] for a in range(axes)] for n in lengths]
    tensors = [torch.tensor(row, dtype=torch.int64).reshape(axes, -1) for row in rows]
    longest = max(lengths)
    padded, mask = positions.left_padded_rows(tensors)
    equal("padded", padded, [[[0] * (longest - len(row[a])) + row[a] for row in rows] for a in range(axes)])
    equal("mask", mask, [[False] * (longest - n) + [True] * n for n in lengths])
    flat, segments = positions.packed_rows(tensors)
    equal("packed", flat, [[at for row in rows for at in row[a]] for a in range(axes)])
    equal("segments", segments, [i for i, n in enumerate(lengths) for _ in range(n)])


def _arange(length: int, offset: int) -> None:
    equal("arange", positions.arange(length, offset=offset), list(range(offset, offset + length)))


def _spans(r: Random) -> tuple[Any, ...]:
    family = r.choice(sorted(oracle.FAMILIES))
    merge, frames, _, whole = oracle.FAMILIES[family]
    spans: list[tuple] = []
    for _ in range(r.randrange(1, 6)):
        sides = [merge * r.randrange(1, 5) for _ in range(2)]
        kind = r.choice(("text", "image", "video") if whole else ("text", "image"))
        seconds = r.choice((Fraction(1, 2), Fraction(1), Fraction(1, 3), Fraction(7, 5), Fraction(1, 24)))
        video = ("video", frames * r.randrange(1, 7), *sides, seconds)
        spans.append({"text": ("text", r.randrange(1, 9)), "image": ("image", *sides), "video": video}[kind])
    return spans, family, r.choice((0, 0, 17))


def _shape(r: Random) -> list[int]:
    return [r.randrange(1, 6) for _ in range(r.choice((1, 2, 2, 3)))]


def _grid_arguments(r: Random) -> tuple[Any, ...]:
    shape = _shape(r)
    return shape, [r.randrange(-9, 9) for _ in shape], [r.randrange(-3, 9) for _ in shape]


Draw = Callable[[Random], tuple[Any, ...]]
KINDS: dict[str, tuple[Draw, Callable[..., None]]] = {
    "left_padded": (
        lambda r: (
            [[r.random() < 0.6 for _ in range(n)] for _ in range(r.randrange(1, 4))]
            if (n := r.randrange(1, 9))
            else [],
        ),
        _padded,
    ),
    "packed": (lambda r: ([r.randrange(1, 7) for _ in range(r.randrange(1, 7))], r.random() < 0.5), _packed),
    "sharded": (lambda r: (r.randrange(1, 6), r.randrange(1, 6), r.random() < 0.5), _sharded),
    "grid": (_grid_arguments, _grid),
    "midpoints": (lambda r: (_shape(r), r.randrange(1, 4)), _midpoints),
    "multimodal": (_spans, _multimodal),
    "batched": (lambda r: ([r.randrange(1, 6) for _ in range(r.randrange(1, 4))], r.choice((2, 3))), _batched),
    "arange": (lambda r: (r.randrange(9), r.choice((0, 5, 2**31 - 9))), _arange),
}
"""How every function's arguments are drawn, and what they are held to."""


def draw(r: Random) -> PositionCase:
    """A call that the library's contracts admit."""
    kind = r.choice(("multimodal", *KINDS))
    return PositionCase(kind=kind, given=KINDS[kind][0](r))


AREA = Area("positions", "padded, packed, sharded, of grids, and of several kinds of content", draw)
