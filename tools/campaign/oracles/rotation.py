"""Rotations: angles to 40 digits by mpmath, and what they do to vectors, from the papers' formulas."""

from collections.abc import Callable, Sequence
from typing import Any

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


def ladder(dim: int, base: float, scaling: tuple[str, dict[str, Any]] = ("Default", {})) -> tuple[list[Any], float]:
    """Frequencies of dim/2 pairs in radians a position, and the attention factor, by the scaling's own formula."""
    name, o = scaling
    with mpmath.workdps(DIGITS):
        theta = [mpmath.mpf(base) ** (mpmath.mpf(-2 * i) / dim) for i in range(dim // 2)]
        return _SCALINGS[name](theta, dim, base, o)


def _default(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    return theta, 1.0


def _linear(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    return [hand / mpmath.mpf(o["factor"]) for hand in theta], 1.0


def _ntk(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    s, b, d = mpmath.mpf(o["factor"]), mpmath.mpf(base), mpmath.mpf(dim)
    if o.get("form", "base") != "fixed":
        longer = 50 ** mpmath.log(s, 8) if o.get("form") == "abf" else s ** (d / (d - 2))
        return [(b * longer) ** (-2 * i / d) for i in range(dim // 2)], 1.0
    return [(b * s) ** (-2 * i / d) / s ** (2 / d) for i in range(dim // 2)], 1.0


def _llama3(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    low, high = o["low_freq_factor"], o["high_freq_factor"]
    scaled = []
    for hand in theta:
        r = o["original_length"] * hand / (2 * mpmath.pi)
        u = (r - low) / (high - low)
        scaled.append(
            hand if r > high else hand / o["factor"] if r < low else u * hand + (1 - u) * hand / o["factor"]
        )
    return scaled, 1.0


def _yarn(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    s, L, fast, slow = mpmath.mpf(o["factor"]), o["original_length"], o.get("beta_fast", 32), o.get("beta_slow", 1)
    if o.get("ramp") == "rotations":
        keep = [(L * hand / (2 * mpmath.pi) - slow) / (fast - slow) for hand in theta]
    else:
        ends = [dim * mpmath.log(L / (2 * mpmath.pi * r)) / (2 * mpmath.log(base)) for r in (fast, slow)]
        if o.get("truncate", True):
            ends = [mpmath.floor(ends[0]), mpmath.ceil(ends[1])]
        low, high = max(ends[0], 0), min(ends[1], dim - 1)
        high += mpmath.mpf("0.001") if low == high else 0
        keep = [1 - (i - low) / (high - low) for i in range(dim // 2)]
    shares = [min(max(g, mpmath.mpf(0)), mpmath.mpf(1)) for g in keep]
    scaled = [(1 - g) * hand / s + g * hand for g, hand in zip(shares, theta, strict=True)]

    def sharper(m: float) -> float:
        return 0.1 * m * float(mpmath.log(s)) + 1

    if o.get("attention_factor") is not None:
        return scaled, float(o["attention_factor"])
    both = o.get("mscale"), o.get("mscale_all_dim")
    return scaled, sharper(1.0) if both[0] is None or both[1] is None else sharper(both[0]) / sharper(both[1])


def _proportional(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    turning = int(o["fraction"] * dim / 2)
    return [
        hand / mpmath.mpf(o.get("factor", 1)) if i < turning else mpmath.mpf(0) for i, hand in enumerate(theta)
    ], 1.0


def _per_pair(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    factors = map(mpmath.mpf, o["factors"])
    return [hand / f for hand, f in zip(theta, factors, strict=True)], o.get("attention_factor", 1.0)


def _longrope(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    L, longer = o["original_length"], o["total_length"] > o["original_length"]
    a = float(mpmath.sqrt(1 + mpmath.log(o["factor"]) / mpmath.log(L)))
    return _per_pair(
        theta, dim, base, {"factors": o["long_factors" if longer else "short_factors"], "attention_factor": a}
    )


def _dynamic(theta: list[Any], dim: int, base: float, o: dict[str, Any]) -> tuple[list[Any], float]:
    T, L, f = o["total_length"], o["original_length"], o["factor"]
    if T <= L:
        return theta, 1.0
    return _ntk(theta, dim, base, {"factor": mpmath.mpf(f) * T / L - (mpmath.mpf(f) - 1)})


_SCALINGS: dict[str, Callable[[list[Any], int, float, dict[str, Any]], tuple[list[Any], float]]] = {
    "Default": _default,
    "Linear": _linear,
    "NTK": _ntk,
    "Llama3": _llama3,
    "YaRN": _yarn,
    "Proportional": _proportional,
    "PerPair": _per_pair,
    "LongRoPE": _longrope,
    "DynamicNTK": _dynamic,
}


def axes_of_pairs(name: str, numbers: tuple[int, ...], order: tuple[int, ...] | None) -> list[tuple[int, int, int]]:
    """Of every pair its axis, the rung of that axis' frequencies that it takes, and how many rungs there are.

    Section a is that of axis order[a].
    """
    pairs = numbers[1] if name in ("alternating", "dealt") else sum(numbers)
    layout: list[tuple[int, int, int]] = []
    if name == "chunked":
        layout = [(a, 0, 0) for a, n in enumerate(numbers) for _ in range(n)]
        layout = [(a, i, pairs) for i, (a, _, _) in enumerate(layout)]
    elif name == "strided":  # Qwen3-VL: start with time, then every third pair from h on, from w on
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
    else:  # Pixtral: one list, rungs 0 A 2A … for the first axis
        each = pairs // numbers[0]
        layout = [(i // each, (i % each) * numbers[0] + i // each, pairs) for i in range(pairs)]
    return layout if order is None else [(order[a], rung, size) for a, rung, size in layout]


def channel_tables(layout: str, D: int) -> list[tuple[int, int, int, int, int]]:
    """Of every channel its partner, the sign of its sine, axis, and frequency base^(−index/pairs).

    From the models: Gemma 4's tower rotates each half of a head by columns and by rows; V-JEPA 2 tiles a third's
    angles and pairs neighbours; ERNIE-Image repeats every angle and pairs across the head; HunYuanVL (in
    transformers) doubles each of four sections over the whole width.
    """
    rows: list[tuple[int, int, int, int, int]] = []
    if layout == "gemma4-vision":
        half = D // 2
        for c in range(D):
            block, i = divmod(c, half)
            n = half // 2
            rows.append((block * half + (i + n) % half, -1 if i < n else 1, 1 - block, i % n, n))
    elif layout == "v-jepa2":
        size = 2 * (D // 6)
        for c in range(3 * size):
            block, i = divmod(c, size)
            rows.append(
                (c + 1 if i % 2 == 0 else c - 1, -1 if i % 2 == 0 else 1, block, i % (size // 2), size // 2)
            )
    elif layout == "ernie-image":
        widths = (D // 4, 3 * D // 8, 3 * D // 8)
        angles = [(axis, i, width // 2) for axis, width in enumerate(widths) for i in range(width // 2)]
        for c in range(D):
            rows.append(((c + D // 2) % D, -1 if c < D // 2 else 1, *angles[c // 2]))
    else:
        for c in range(D):
            rows.append(((c + D // 2) % D, -1 if c < D // 2 else 1, c // (D // 4), c % (D // 2), D // 2))
    return rows


def by_channels(x: Array, angles: Array, table: list[tuple[int, int, int, int, int]]) -> Array:
    """y_c = x_c·cos φ_c ± x_partner·sin φ_c; what is behind the table passes."""
    n = len(table)
    partner, sign = np.array([row[0] for row in table]), np.array([row[1] for row in table])
    y = x[..., :n] * np.cos(angles) + sign * x[..., partner] * np.sin(angles)
    return np.concatenate((y, x[..., n:]), -1)


def in_units(hand: Any, unit: str | None, turns: bool) -> Any:
    """A frequency for a coordinate counted in these units, in turns rather than radians where it says so."""
    with mpmath.workdps(DIGITS):
        numerator, _, denominator = (unit or "1").partition("/")
        scaled = hand * int(numerator) / int(denominator or 1)
        return scaled * 2 * mpmath.pi if turns else scaled


def finishing(theta: list[Any], length: int) -> int:
    """How many of these frequencies complete a rotation within so many positions."""
    return sum(1 for hand in theta if hand >= 2 * mpmath.pi / length)
