"""Every single mistake that ports of a rotation make, as changes of its description; some are measured."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.rotation import PRODUCTS, SERIES, Rotation
from posenc.integrations.doctor.search import BASES, LOW, Array, Change
from posenc.scaling import NTK, Default, Linear, Llama3, Scaling, YaRN

FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
SECTIONS = ((16, 24, 24), (24, 20, 20), (8, 12, 12), (11, 11, 10), (22, 22, 20))
"""Factors and sections of released models, which a port may have kept."""


def mistakes(right: Rotation, seen: Mapping[str, Array]) -> Iterator[Change]:
    """All of them for this model; what the numbers are asked for is measured under every layout of channels."""
    turns = list(_turns(right, seen))
    yield from _channels(right)
    yield from ({"ladder": name} for name in right.ladders)
    D, d = right.head_dim, 2 * right.turning
    yield from ({"span": n} for n in dict.fromkeys((d, D, d // 2, 2 * d, 2 * D, D // 2, d - 2, 0)) if n >= 0)
    yield from ({"base": base} for base in _bases(right, seen, turns))
    if right.scaling != Default():
        yield from (
            {"times": 0},
            {"times": 0, "factor": 1.0},
            {"times": 2},
            {"times": 2, "factor": right.factor**2},
        )
    for scaling in _scalings(right):
        yield {"scaling": scaling}
        with suppress(InvalidArgument):  # its own attention factor comes with it
            yield {"scaling": scaling, "factor": scaling.frequencies(right.span, right.base).attention_factor}
    yield from ({"series": series} for series in SERIES)
    yield {"sign": -right.sign}
    yield from ({"products": wrong} for wrong in PRODUCTS)
    yield from ({"factor": factor} for factor in _factors(right, turns))
    yield from ({"shift": n} for n in _shifts(right, seen, turns))
    yield from _positions(right, seen)
    for what in ("angles", "positions", "frequencies", "products", "arithmetic"):
        yield from ({"precision": f"{what} in {low}"} for low in LOW)


def _channels(right: Rotation) -> Iterator[Change]:
    """Which channels turn with which."""
    P, D = right.turning, right.head_dim
    other = {"pairing": "interleaved" if right.pairing == "half" else "half", "distance": P}
    yield from (other, {**other, "moved": True}, {"moved": True})
    yield from ({"distance": n} for n in dict.fromkeys((P, D // 2, D // 4)) if n >= P and right.pairing == "half")
    yield {"distance": D // 2, "span": D}  # a ladder over the whole head, with zeros behind
    yield {"start": D - 2 * P}
    for n in dict.fromkeys((D // 2, P // 2, 2 * P, D // 4, D // 8)):
        if n not in (0, P):
            beside = {"distance": n} if right.distance == P else {}
            yield {"turning": n, "span": 2 * n, **beside}
            yield {"turning": n, **beside}
            yield {"turning": n}
            yield {"turning": n, "distance": n, "span": 2 * n}


def _turns(right: Rotation, seen: Mapping[str, Array]) -> Iterator[Array]:
    """cos + i·sin as the port has them, ``(N, P)``, under every layout of channels under which lengths are kept."""
    if {"cos", "sin"} <= set(seen):
        P = right.turning
        both = seen["cos"] + 1j * seen["sin"]
        yield both[:, :P]
        if both.shape[1] > P:
            yield both[:, : 2 * P : 2]
    if "rotated" in seen:
        for layout in (right, *(replace(right, **dict(change)) for change in _channels(right))):
            with suppress(InvalidArgument):
                first, second = layout.channels
                to_first, to_second = layout.written.channels
                x, y = seen["x"], seen["rotated"]
                turns = (y[:, to_first] + 1j * y[:, to_second]) / (x[:, first] + 1j * x[:, second])
                if np.abs(np.abs(turns) / np.median(np.abs(turns)) - 1).max() < 0.02:
                    yield turns


def _bases(right: Rotation, seen: Mapping[str, Array], turns: list[Array]) -> Iterator[float]:
    yield from BASES
    factor, d = getattr(right.scaling, "factor", 1.0), 2 * right.turning
    yield from (right.base * factor, right.base * factor ** (d / max(1, d - 2)))
    thetas = [seen["inv_freq"]] if "inv_freq" in seen else []
    if not thetas and turns:
        where = seen["positions"][0]
        ahead = np.argwhere(where[None] - where[:, None] == 1)
        thetas = [np.abs(np.angle(both[ahead[0, 1]] / both[ahead[0, 0]])) for both in turns[: len(ahead)]]
    for theta in thetas:
        i = np.arange(len(theta))
        best = int((i * theta * (theta < 1)).argmax())
        if not best or not 0 < theta[best] < 1:
            continue
        for span in dict.fromkeys((right.span, d, right.head_dim)):
            measured = -span / (2 * best) * math.log10(theta[best])
            if 0 < measured < 12:
                yield from (float(f"{10**measured:.{n}g}") for n in (1, 2, 3, 4, 6))


def _scalings(right: Rotation) -> Iterator[Scaling]:
    """The model's scaling with one of its numbers wrong, and others in its place."""
    scaling = right.scaling
    factor, length = getattr(scaling, "factor", None), getattr(scaling, "original_length", None)
    variants: list[dict[str, Any]] = []
    if length:
        lengths = (*right.lengths, round(length * (factor or 1)), 2 * length, length // 2)
        variants += [{"original_length": n} for n in dict.fromkeys(lengths)]
    if factor:
        variants += [{"factor": n} for n in dict.fromkeys((2 * factor, factor / 2, factor**2, *FACTORS))]
    if isinstance(scaling, YaRN):
        ramp = {"dimension": "rotations", "rotations": "dimension"}[scaling.ramp]
        variants += [{"truncate": not scaling.truncate}, {"ramp": ramp, "truncate": True}]
        variants += [{"beta_fast": 32.0, "beta_slow": 1.0}, {"beta_slow": 2.0}, {"beta_fast": 16.0}]
    if isinstance(scaling, Llama3):
        variants += [{"low_freq_factor": 1.0, "high_freq_factor": n} for n in (2.0, 8.0, 1.0)]
    for fields in variants:
        with suppress(InvalidArgument):
            yield replace(scaling, **fields)  # type: ignore[type-var]
    for n in dict.fromkeys((factor, *FACTORS)):
        if n:
            yield from (Linear(n), NTK(n))
    yield from (Llama3(factor=n, original_length=8192) for n in (8.0, 32.0))  # of 3.1 and 3.2


def _factors(right: Rotation, turns: list[Array]) -> list[float]:
    known = [1.0, right.factor**2, right.factor**0.5]
    if (s := getattr(right.scaling, "factor", 1.0)) > 1:
        known += [0.1 * math.log(s) + 1, (0.1 * math.log(s) + 1) ** 2, s, s**0.5, 1 / s]
    if turns:
        known += [float(f"{np.median(np.abs(turns[0])):.{n}g}") for n in (3, 4, 8)]
    return list(dict.fromkeys(known))


def _shifts(right: Rotation, seen: Mapping[str, Array], turns: list[Array]) -> list[int]:
    """Offsets of all positions: the usual ones, and what the first pair of a period past 2,000 is ahead by."""
    theta, measured = right.theta, list[float]()
    slow = np.flatnonzero((theta > 0) & (theta < math.pi / 1000))
    if len(slow):
        pair, row = slow[0], seen["positions"][0].argmin() if turns else 0
        measured = [
            float(np.angle(both[row, pair] * np.exp(-1j * right.angles(seen)[row, pair]))) / theta[pair]
            for both in turns
            if pair < both.shape[1]  # of a layout in which fewer rotate
        ]
    return list(dict.fromkeys((1, -1, 2, *(round(n) for n in measured if math.isfinite(n)))))


def _positions(right: Rotation, seen: Mapping[str, Array]) -> Iterator[Change]:
    """Where the port believes its tokens to stand, and by which axis a pair turns."""
    yield from ({"multiple": n} for n in (2.0, 0.5, 0.25, 0.125, 1 / 16, 1 / 32, 0.0))
    if "positions" not in seen:
        return
    where = seen["positions"]
    lengths = {2**k for k in range(3, 31)} | {int(p) for p in where[0] if p > 1} | set(right.lengths)
    lengths = {n for n in lengths if n <= where.max()}
    yield from ({"last": n - 1} for n in sorted(lengths | {n + 1 for n in lengths}))
    yield from ({"period": n} for n in sorted(lengths))
    yield from ({"counted": axis} for axis in ("rows", "heads") if seen[axis].any())
    if any(right.axes):
        yield from ({"axes": axes} for axes in dict.fromkeys(_other_axes(right.axes, right.head_dim // 2)))


def _other_axes(right: tuple[int, ...], pairs: int) -> Iterator[tuple[int, ...]]:
    """Other axes for the same pairs: laid out differently, in another order, with other counts, or one for all."""
    A, P = max(right) + 1, len(right)
    counts = [right.count(axis) for axis in range(A)]
    yield from ((axis,) * pairs for axis in range(A))
    for order in permutations(range(A)):
        yield tuple(order[axis] for axis in right)
    released = [sections for sections in SECTIONS if len(sections) == A and sum(sections) == P]
    for sections in dict.fromkeys((*permutations(counts), (*[P // A] * (A - 1), P - P // A * (A - 1)), *released)):
        for order in permutations(range(A)):
            yield tuple(axis for axis in order for _ in range(sections[axis]))
        dealt = [0] * P
        for axis in range(1, A):
            for i in range(axis, min(A * sections[axis], P), A):
                dealt[i] = axis
        yield tuple(dealt)
    yield tuple(i % A for i in range(P))
