"""Rotations from the papers' formulas, with angles of 40 digits from mpmath."""

from collections.abc import Sequence
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

Array = np.ndarray
DIGITS = 40


def polar(x: Array, angles: Array) -> Array:
    """Return softplus of the first channels at these angles: real parts, imaginary parts, then other channels."""
    n = angles.shape[-1]
    size = np.maximum(x[..., :n], 0) + np.log1p(np.exp(-np.abs(x[..., :n])))
    return np.concatenate((size * np.cos(angles), size * np.sin(angles), x[..., n:]), -1)


def rotated(x: Array, angles: Array, pairing: str) -> Array:
    """Multiply each pair of channels, as a complex number, by e^{iφ}; the other channels are unchanged."""
    return mixed(x, np.cos(angles), np.sin(angles), pairing)


def mixed(x: Array, cos: Array, sin: Array, pairing: str) -> Array:
    """Multiply each pair of channels by cos + i·sin from tables; the other channels are unchanged."""
    n = cos.shape[-1]
    first, second = (
        (x[..., :n], x[..., n : 2 * n]) if pairing == "half" else (x[..., 0 : 2 * n : 2], x[..., 1 : 2 * n : 2])
    )
    pair = (first + 1j * second) * (cos + 1j * sin)
    real, imaginary = pair.real, pair.imag
    joined = (
        np.concatenate((real, imaginary), -1)
        if pairing == "half"
        else np.stack((real, imaginary), -1).reshape(*real.shape[:-1], 2 * n)
    )
    return np.concatenate((joined, x[..., 2 * n :]), -1)


def phases(positions: Array, theta: Sequence[mpmath.mpf]) -> Array:
    """Return p·θ for every position and frequency, reduced to −π … π before rounding to float64."""
    with mpmath.workdps(DIGITS):
        turn = 2 * mpmath.pi
        values, inverse = np.unique(positions, return_inverse=True)
        table = np.empty((len(values), len(theta)))
        for i, position in enumerate(values.tolist()):
            for j, hand in enumerate(theta):
                angle = position * hand
                table[i, j] = float(angle - turn * mpmath.nint(angle / turn))
    return table[inverse].reshape(*positions.shape, len(theta))


def ladder(dim: int, base: float) -> list[Any]:
    """Return θ_i = base^(−2i/dim) for dim/2 pairs, in radians per position."""
    with mpmath.workdps(DIGITS):
        return [mpmath.mpf(base) ** (mpmath.mpf(-2 * i) / dim) for i in range(dim // 2)]


def axes_of_pairs(name: str, numbers: tuple[int, ...], order: tuple[int, ...] | None) -> list[tuple[int, int, int]]:
    """Return each pair's axis, the index of its frequency in that axis's series, and the series' length.

    Section a belongs to axis order[a].
    """
    pairs = numbers[1] if name in ("alternating", "dealt") else sum(numbers)
    layout: list[tuple[int, int, int]] = []
    if name == "chunked":
        layout = [(a, 0, 0) for a, n in enumerate(numbers) for _ in range(n)]
        layout = [(a, i, pairs) for i, (a, _, _) in enumerate(layout)]
    elif name == "strided":  # Qwen3-VL: all pairs start as time; then every third becomes h, and another w
        axis = [0] * pairs
        for a, n in enumerate(numbers[1:], 1):
            axis[a : len(numbers) * n : len(numbers)] = [a] * n
        layout = [(a, i, pairs) for i, a in enumerate(axis)]
    elif name == "first_last":  # ERNIE 4.5 VL: h w h w … t t
        others = len(numbers) - 1
        layout = [(1 + i % others if i < others * numbers[1] else 0, i, pairs) for i in range(pairs)]
    elif name == "axial":
        layout = [(a, i, n) for a, n in enumerate(numbers) for i in range(n)]
    elif name == "alternating":  # Kimi: x1 y1 x.1 y.1 …
        layout = [(i % numbers[0], i // numbers[0], pairs // numbers[0]) for i in range(pairs)]
    else:  # Pixtral: one series; frequencies 0, A, 2A … for the first axis
        each = pairs // numbers[0]
        layout = [(i // each, (i % each) * numbers[0] + i // each, pairs) for i in range(pairs)]
    return layout if order is None else [(order[a], rung, size) for a, rung, size in layout]


def in_units(hand: Any, unit: str | None, turns: bool) -> Any:
    """Return a frequency for a coordinate in these units; in turns instead of radians if ``turns``."""
    with mpmath.workdps(DIGITS):
        numerator, _, denominator = (unit or "1").partition("/")
        scaled = hand * int(numerator) / int(denominator or 1)
        return scaled * 2 * mpmath.pi if turns else scaled


def finishing(theta: list[Any], length: int) -> int:
    """Return the number of frequencies that complete a rotation within this many positions."""
    return sum(1 for hand in theta if hand >= 2 * mpmath.pi / length)
