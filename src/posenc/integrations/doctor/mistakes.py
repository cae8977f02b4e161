"""Every single mistake that ports of a rotation make, as changes of its description; some are measured."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.rotation import PRODUCTS, SERIES, Rotation
from posenc.integrations.doctor.search import BASES, LOW, Array, Change, each, measured
from posenc.scaling import NTK, Default, Linear, Llama3, Scaling, YaRN

FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
SECTIONS = ((16, 24, 24), (24, 20, 20), (8, 12, 12), (11, 11, 10), (22, 22, 20))
"""Factors and sections of released models, which a port may have kept."""
ROUNDED = ("angles", "positions", "frequencies", "products", "arithmetic")


def mistakes(right: Rotation, seen: Mapping[str, Array]) -> list[Change]:
    """All of them for this model; what the numbers are asked for is measured under every layout of channels."""
    turns = list(_turns(right, seen))
    D, d = right.head_dim, 2 * right.turning
    scaled = right.scaling != Default()
    return [
        *_channels(right),
        *each(
            ladder=right.ladders,
            span=[n for n in (d, D, d // 2, 2 * d, 2 * D, D // 2, d - 2, 0) if n >= 0],
            base=_bases(right, seen, turns),
            times=(0, 2) if scaled else (),
        ),
        *([{"times": 0, "factor": 1.0}, {"times": 2, "factor": right.factor**2}] if scaled else []),
        *_scalings(right),
        *each(
            series=SERIES,
            sign=[-right.sign],
            products=PRODUCTS,
            factor=_factors(right, turns),
            shift=_shifts(right, seen, turns),
            multiple=(2.0, 0.5, 0.25, 0.125, 1 / 16, 1 / 32, 0.0),
            **(_positions(right, seen) if "positions" in seen else {}),
            precision=[f"{what} in {low}" for what in ROUNDED for low in LOW],
        ),
    ]


def _channels(right: Rotation) -> list[Change]:
    """Which channels turn with which."""
    P, D = right.turning, right.head_dim
    other = {"pairing": "interleaved"} if right.pairing == "half" else {"pairing": "half", "distance": P}
    return [
        other,
        {**other, "moved": True},
        {"moved": True},
        *({"distance": n} for n in (P, D // 2, D // 4) if n >= P and right.pairing == "half"),
        {"distance": D // 2, "span": D},  # a ladder over the whole head, with zeros behind
        {"start": D - 2 * P},
        *(
            {"turning": n, **distance, **span}
            for n in (D // 2, P // 2, 2 * P, D // 4, D // 8)
            for distance, span in product(({"distance": n}, {}), ({"span": 2 * n}, {}))
            if n not in (0, P)
        ),
    ]


def _turns(right: Rotation, seen: Mapping[str, Array]) -> Iterator[Array]:
    """cos + i·sin as the port has them, ``(N, P)``, under every layout of channels under which lengths are kept."""
    if {"cos", "sin"} <= set(seen):
        both = seen["cos"] + 1j * seen["sin"]
        yield both[:, : right.turning]
        if both.shape[1] > right.turning:
            yield both[:, : 2 * right.turning : 2]
    for layout in (right, *(replace(right, **dict(change)) for change in _channels(right))):
        with suppress(InvalidArgument, KeyError):  # a head of too few channels, or no vectors to compare
            (first, second), to = layout.channels, layout.written.channels
            turns = (seen["rotated"][:, to[0]] + 1j * seen["rotated"][:, to[1]]) / (
                seen["x"][:, first] + 1j * seen["x"][:, second]
            )
            if np.abs(np.abs(turns) / np.median(np.abs(turns)) - 1).max() < 0.02:
                yield turns


def _bases(right: Rotation, seen: Mapping[str, Array], turns: list[Array]) -> Iterator[float]:
    factor, d = getattr(right.scaling, "factor", 1.0), 2 * right.turning
    yield from (*BASES, right.base * factor, right.base * factor ** (d / max(1, d - 2)))
    thetas = [seen["inv_freq"]] if "inv_freq" in seen else []
    if not thetas and turns:
        where = seen["positions"][0]
        ahead = np.argwhere(where[None] - where[:, None] == 1)
        thetas = [np.abs(np.angle(both[ahead[0, 1]] / both[ahead[0, 0]])) for both in turns[: len(ahead)]]
    for theta, span in product(thetas, dict.fromkeys((right.span, d, right.head_dim))):
        best = int((np.arange(len(theta)) * theta * (theta < 1)).argmax())
        if best and 0 < theta[best] < 1:
            yield from measured(theta[best] ** (-span / (2 * best)), 1, 2, 3, 4, 6)


def _scalings(right: Rotation) -> Iterator[Change]:
    """The model's scaling with one of its numbers wrong, and others in its place; also with their own factors."""
    scaling = right.scaling
    factor, length = getattr(scaling, "factor", None), getattr(scaling, "original_length", None)
    variants: list[Change] = []
    if length:
        variants += each(original_length=[*right.lengths, round(length * (factor or 1)), 2 * length, length // 2])
    if factor:
        variants += each(factor=[2 * factor, factor / 2, factor**2, *FACTORS])
    if isinstance(scaling, YaRN):
        ramp = {"dimension": "rotations", "rotations": "dimension"}[scaling.ramp]
        variants += [{"truncate": not scaling.truncate}, {"ramp": ramp, "truncate": True}]
        variants += [{"beta_fast": 32.0, "beta_slow": 1.0}, {"beta_slow": 2.0}, {"beta_fast": 16.0}]
    if isinstance(scaling, Llama3):
        variants += [{"low_freq_factor": 1.0, "high_freq_factor": n} for n in (2.0, 8.0, 1.0)]
    others: list[tuple[Scaling, Change]] = [(scaling, fields) for fields in variants]
    others += [(kind(n), {}) for n in (factor, *FACTORS) if n for kind in (Linear, NTK)]
    others += [(Llama3(factor=n, original_length=8192), {}) for n in (8.0, 32.0)]  # of 3.1 and 3.2
    for other, fields in others:
        with suppress(InvalidArgument):
            changed = replace(other, **fields)  # type: ignore[type-var]
            yield {"scaling": changed}
            yield {"scaling": changed, "factor": changed.frequencies(right.span, right.base).attention_factor}


def _factors(right: Rotation, turns: list[Array]) -> list[float]:
    known, s = [1.0, right.factor**2, right.factor**0.5], getattr(right.scaling, "factor", 1.0)
    if s > 1:
        known += [0.1 * math.log(s) + 1, (0.1 * math.log(s) + 1) ** 2, s, s**0.5, 1 / s]
    return known + [float(f"{np.median(np.abs(both)):.{n}g}") for both in turns[:1] for n in (3, 4, 8)]


def _shifts(right: Rotation, seen: Mapping[str, Array], turns: list[Array]) -> Iterable[int]:
    """Offsets of all positions: the usual ones, and what the first pair of a period past 2,000 is ahead by."""
    yield from (1, -1, 2)
    for pair in np.flatnonzero((right.theta > 0) & (right.theta < math.pi / 1000))[:1]:
        row = seen["positions"][0].argmin() if turns else 0
        for both in turns:
            if pair < both.shape[1]:  # else of a layout in which fewer rotate
                ahead = np.angle(both[row, pair] * np.exp(-1j * right.angles(seen)[row, pair]))
                yield from (round(ahead / right.theta[pair]) for _ in range(bool(np.isfinite(ahead))))


def _positions(right: Rotation, seen: Mapping[str, Array]) -> dict[str, Iterable[Any]]:
    """Where the port believes its tokens to stand, and by which axis a pair turns."""
    where = seen["positions"]
    lengths = {2**k for k in range(3, 31)} | {int(p) for p in where[0] if p > 1} | set(right.lengths)
    lengths = {n for n in lengths if n <= where.max()}
    return {
        "last": sorted({n - 1 for n in lengths} | lengths),
        "period": sorted(lengths),
        "counted": ["rows", "heads"] if seen["heads"].any() else ["rows"],
        "axes": _other_axes(right.axes, right.head_dim // 2) if any(right.axes) else (),
    }


def _other_axes(right: tuple[int, ...], pairs: int) -> Iterator[tuple[int, ...]]:
    """Other axes for the same pairs: laid out differently, in another order, with other counts, or one for all."""
    A, P = max(right) + 1, len(right)
    counts, orders = [right.count(axis) for axis in range(A)], list(permutations(range(A)))
    yield from ((axis,) * pairs for axis in range(A))
    yield from (tuple(order[axis] for axis in right) for order in orders)
    released = [sections for sections in SECTIONS if len(sections) == A and sum(sections) == P]
    for sections in (*permutations(counts), (*[P // A] * (A - 1), P - P // A * (A - 1)), *released):
        yield from (tuple(axis for axis in order for _ in range(sections[axis])) for order in orders)
        yield tuple(i % A if i < A * sections[i % A] else 0 for i in range(P))
    yield tuple(i % A for i in range(P))
