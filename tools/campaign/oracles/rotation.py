"""Rotations: angles to 40 digits by mpmath, and what they do to vectors, from the papers' formulas."""

from collections.abc import Sequence

import mpmath  # type: ignore[import-untyped]
import numpy as np

Array = np.ndarray
DIGITS = 40


def frequencies(dim: int, base: float) -> Array:
    """θ_i = base^(−2i/dim)."""
    return np.array([base ** (-2 * i / dim) for i in range(dim // 2)])


def polar(x: Array, angles: Array) -> Array:
    """softplus of the first channels at these angles: real parts, then imaginary ones, then what is left."""
    n = angles.shape[-1]
    size = np.maximum(x[..., :n], 0) + np.log1p(np.exp(-np.abs(x[..., :n])))
    return np.concatenate((size * np.cos(angles), size * np.sin(angles), x[..., n:]), -1)


def rotated(x: Array, angles: Array, pairing: str) -> Array:
    """Every pair of channels as a complex number times e^{iφ}; channels behind the pairs pass."""
    return mixed(x, np.cos(angles), np.sin(angles), pairing)


def mixed(x: Array, cos: Array, sin: Array, pairing: str) -> Array:
    """The same by tables of cos and sin."""
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
    """p·θ of every position and frequency, reduced to −π … π before it becomes a float64."""
    with mpmath.workdps(DIGITS):
        turn = 2 * mpmath.pi
        values, inverse = np.unique(positions, return_inverse=True)
        table = np.empty((len(values), len(theta)))
        for i, position in enumerate(values.tolist()):
            for j, hand in enumerate(theta):
                angle = position * hand
                table[i, j] = float(angle - turn * mpmath.nint(angle / turn))
    return table[inverse].reshape(*positions.shape, len(theta))
