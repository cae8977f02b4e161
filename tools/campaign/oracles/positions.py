"""Where tokens stand, counted one by one in plain Python."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import floor

Rows = list[list[int]]


def left_padded(mask: Sequence[Sequence[bool]]) -> Rows:
    """Real tokens count from 0; padding stands at 0 before the first, and goes on with the last one's after it."""
    rows = []
    for row in mask:
        seen_tokens, out = 0, []
        for real in row:
            seen_tokens += real
            out.append(max(seen_tokens - 1, 0))
        rows.append(out)
    return rows


def packed(lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    return [i for n in lengths for i in range(n)], [d for d, n in enumerate(lengths) for _ in range(n)]


def left_padded_rows(lengths: Sequence[int]) -> tuple[list[Rows], list[list[bool]]]:
    """Of sequences whose tokens stand at (i, 100 + i), the longest to the left; and which tokens are real."""
    longest = max(lengths)
    padded = [[[0] * (longest - n) + list(range(start, start + n)) for n in lengths] for start in (0, 100)]
    return padded, [[False] * (longest - n) + [True] * n for n in lengths]


def packed_rows(lengths: Sequence[int]) -> tuple[Rows, list[int]]:
    at, segments = packed(lengths)
    return [at, [100 + i for i in at]], segments


def sharded(length: int, rank: int, ranks: int, zigzag: bool) -> list[int]:
    """The places of a rank; with zigzag one piece from the front and its mirror image from the back."""
    size = length // (2 * ranks if zigzag else ranks)
    front = list(range(rank * size, (rank + 1) * size))
    return front + [length - 1 - i for i in reversed(front)] if zigzag else front


def grid(shape: Sequence[int], corner: Sequence[int], step: Sequence[int]) -> Rows:
    cells = list(product(*(range(n) for n in shape)))
    return [[corner[a] + step[a] * cell[a] for cell in cells] for a in range(len(shape))]


def midpoints(shape: Sequence[int], parts: int) -> list[list[Fraction]]:
    """(2i + 1 − n)/n of every cell, in units of 1/parts."""
    cells = list(product(*(range(n) for n in shape)))
    return [[Fraction(2 * cell[a] + 1 - n, n) * parts for cell in cells] for a, n in enumerate(shape)]


FAMILIES: dict[str, tuple[int, int, int | None, bool]] = {
    "qwen2-vl": (2, 1, None, True),
    "qwen2.5-vl": (2, 1, 2, True),
    "qwen2.5-omni": (2, 1, 25, True),
    "qwen3-vl": (2, 1, None, False),
    "glm-4v": (2, 1, None, False),
    "ernie-4.5-vl": (2, 2, None, True),
}
"""Patches a token along a side, frames a token, ids a second, and whether a video is one span."""


def multimodal(spans: Sequence[tuple], family: str, start: int) -> tuple[Rows, int]:
    """Time, row and column of every token of ("text", n), ("image", h, w) and ("video", t, h, w, seconds)."""
    merge, frames_a_token, ids, _ = FAMILIES[family]
    axes: Rows = [[], [], []]
    for kind, *sizes in spans:
        at = max((max(axis) for axis in axes if axis), default=start - 1) + 1
        if kind == "text":
            tokens = [(i, i, i) for i in range(sizes[0])]
        else:
            frames, height, width = (1, *sizes) if kind == "image" else sizes[:3]
            seconds = Fraction(1) if kind == "image" else sizes[3]
            tokens = []
            for t in range(frames // (1 if kind == "image" else frames_a_token)):
                time = t if ids is None or kind == "image" else floor(t * seconds * ids)
                tokens += [(time, y, x) for y in range(height // merge) for x in range(width // merge)]
        for axis, column in enumerate(zip(*tokens, strict=True)):
            axes[axis] += [at + value for value in column]
    return axes, max((max(axis) for axis in axes if axis), default=start - 1) + 1
