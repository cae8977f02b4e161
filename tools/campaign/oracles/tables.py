"""Rows that are added to token embeddings: sinusoids to forty digits, and learned tables resized cell by cell."""

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
from tools.campaign.oracles.rotation import DIGITS, Array, in_units, phases


def sinusoids(positions: Array, width: int, base: float, order: str, spacing: str) -> Array:
    """Vaswani et al. 2017, section 3.5; in tensor2tensor the last of C/2 wavelengths is 2π·base."""
    count = (width + 1) // 2
    with mpmath.workdps(DIGITS):
        steps = [
            mpmath.mpf(2 * i) / width if spacing == "paper" else mpmath.mpf(i) / max(count - 1, 1)
            for i in range(count)
        ]
        hands = [mpmath.mpf(base) ** -step for step in steps]
    return laid(phases(positions, hands), order)[..., :width]


def laid(angles: Array, order: str) -> Array:
    """sin and cos of every angle, in turn or all sines first."""
    if order == "block":
        return np.concatenate((np.sin(angles), np.cos(angles)), -1)
    return np.stack((np.sin(angles), np.cos(angles)), -1).reshape(*angles.shape[:-1], -1)


def grid_sinusoids(
    positions: Array, sections: list[tuple[int, int]], base: float, order: str, own: bool, units: Any, turns: bool
) -> Array:
    """DETR: of every (axis, pairs) section the sinusoids of that coordinate, beside each other.

    ``own`` says whether a section has a ladder of its own, or a stretch of one ladder over all pairs.
    """
    pairs, rows, first = sum(n for _, n in sections), [], 0
    for axis, n in sections:
        with mpmath.workdps(DIGITS):
            size = n if own else pairs
            rungs = range(n) if own else range(first, first + n)
            hands = [
                in_units(mpmath.mpf(base) ** (-mpmath.mpf(i) / size), units and units[axis], turns) for i in rungs
            ]
        rows.append(laid(phases(positions[axis], hands), order))
        first += n
    return np.concatenate(rows, -1)


CONVENTIONS: dict[str, tuple[str, bool, bool, float]] = {
    "timm": ("cubic", True, False, 0.0),
    "vit": ("cubic", False, False, 0.0),
    "dino": ("cubic", False, False, 0.1),
    "siglip2": ("linear", True, False, 0.0),
    "qwen3-vl": ("linear", False, True, 0.0),
    "inkling2": ("linear", False, False, 0.0),
}
"""Kernel, antialiasing, corners aligned, and what is added to the number of cells."""


def _weight(kernel: str, a: float, x: float) -> float:
    x = abs(x)
    if kernel == "linear":
        return max(0.0, 1 - x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def resizing(name: str, target: int, source: int) -> Array:
    """The weights (target, source) of one axis."""
    kernel, antialias, corners, slack = CONVENTIONS[name]
    a, matrix = (-0.5 if antialias else -0.75), np.zeros((target, source))
    for i in range(target):
        centre = i * (source - 1) / max(target - 1, 1) if corners else (i + 0.5) * source / (target + slack) - 0.5
        if antialias:
            stretch = max(source / (target + slack), 1.0)
            row = [_weight(kernel, a, (j - centre) / stretch) for j in range(source)]
            matrix[i] = np.array(row) / sum(row)
        else:
            for j in range(math.floor(centre) - 1, math.floor(centre) + 3):
                matrix[i, min(max(j, 0), source - 1)] += _weight(kernel, a, j - centre)
    return matrix


def resized(
    weight: Array, shape: tuple[int, int], picture: tuple[int, int], tables: str, name: str | None
) -> Array:
    """(rows, columns, C) of a picture: one table of both, or one of rows plus one of columns."""
    A, B = (
        (np.eye(n) for n in shape)
        if picture == shape or name is None
        else map(lambda n, N: resizing(name, n, N), picture, shape)
    )
    if tables == "sum":
        rows, columns = A @ weight[: shape[0]], B @ weight[shape[0] :]
        return rows[:, None] + columns
    return np.einsum("ia,jb,abc->ijc", A, B, weight.reshape(*shape, -1))
