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
from posenc.integrations.doctor.search import BASES, LOW, Array, Change, Expected, each
from posenc.scaling import NTK, Default, Linear, Llama3, YaRN

FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
SECTIONS = ((16, 24, 24), (24, 20, 20), (8, 12, 12), (11, 11, 10), (22, 22, 20))
"""Factors and sections of released models, which a port may have kept."""
LOGARITHM_TO_BASE_10 = 1 / math.log(10)
"""To this power a base is computed with if its logarithm has base 10 where exp needs the natural one."""
ROUNDED = (
    ("angles",),
    ("positions",),
    ("frequencies",),
    ("positions", "frequencies", "angles"),
    ("positions", "frequencies", "angles", "cos and sin"),
)
VARIANTS: Mapping[Any, list[Change]] = {
    YaRN: [
        *({"ramp": "dimension", "truncate": whole} for whole in (True, False)),
        {"ramp": "rotations", "truncate": True},
        {"beta_fast": 32.0, "beta_slow": 1.0},
        {"beta_slow": 2.0},
        {"beta_fast": 16.0},
    ],
    Llama3: [{"low_freq_factor": 1.0, "high_freq_factor": high} for high in (2.0, 8.0, 1.0)],
}
"""What else ports change of a scaling."""


def mistakes(right: Rotation, seen: Mapping[str, Array], expected: Expected) -> list[Change]:
    """All of them for this model; what the numbers are asked for is measured under every layout of channels."""
    few = {name: values[:256] for name, values in seen.items()}  # enough rows to measure
    turns = list(_turns(right, few)) if "x" in seen else []
    D, d = right.head_dim, 2 * right.turning
    return [
        *_channels(right),
        *each(
            ladder=[ladder for ladder in expected.ladders.items() if ladder[1] != tuple(right.theta)],
            span=[n for n in (d, D, d // 2, 2 * d, 2 * D, D // 2, d - 2, d - 1, d + 1) if n > 0],
            base=_bases(right, few, turns),
            scaling=[Default()],
            series=SERIES,
        ),
        {"series": "twice", "factor": right.factor**2},
        *_scalings(right, expected.lengths),
        *each(
            sign=[-right.sign],
            products=PRODUCTS,
            per_channel=[True],
            factor=_factors(right, turns),
            shift=_shifts(right, few, turns),
            multiple=(2.0, 0.5, 0.25, 0.125, 1 / 16, 1 / 32, 0.0),
            precision=product(ROUNDED, LOW),
        ),
        *_positions(right, seen, expected.lengths),
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
    for layout in (right, *(replace(right, **dict(change)) for change in _channels(right))):
        with suppress(InvalidArgument), np.errstate(all="ignore"):  # a head of too few channels
            (a, b), (c, d) = layout.channels, layout.written.channels
            x, y = seen["x"], seen["rotated"]
            turns = (y[:, c] + 1j * y[:, d]) / (x[:, a] + 1j * x[:, b])
            if np.abs(np.abs(turns) / np.median(np.abs(turns)) - 1).max() < 0.02:
                yield turns


def _bases(right: Rotation, seen: Mapping[str, Array], turns: list[Array]) -> Iterator[float]:
    """Known ones, a logarithm to base 10, NTK's, and those that the frequencies of the numbers have."""
    factor, d = getattr(right.scaling, "factor", 1.0), 2 * right.turning
    ntk = right.base * factor, right.base * factor ** (d / max(1, d - 2))
    yield from (*BASES, 1000.0, 100.0, right.base**LOGARITHM_TO_BASE_10, *ntk)
    at = seen.get("positions", np.empty((0, 1)))[:, 0]
    ahead = np.argwhere(at[None] - at[:, None] == 1)[:1]
    thetas = [values for name, values in seen.items() if name == "inv_freq"]
    thetas += [np.abs(np.angle(both[j] / both[i])) for both in turns for i, j in ahead]
    for theta, span in product(thetas, dict.fromkeys((right.span, d, right.head_dim))):
        best = int((np.arange(len(theta)) * theta * (theta < 1)).argmax())
        base = theta[best] ** (-span / max(1, 2 * best)) if theta[best] else 0.0
        if 1 < base < 1e12:
            yield from (float(f"{base:.{digits}g}") for digits in (1, 2, 3, 4))
            yield float(round(min(base, 1e6)))  # such as 65536


def _scalings(right: Rotation, lengths: Iterable[int]) -> Iterator[Change]:
    """The model's scaling with one of its numbers wrong, and others in its place; also with their own factors."""
    scaling = right.scaling
    factor, length = getattr(scaling, "factor", 0), getattr(scaling, "original_length", 0)
    variants = each(
        original_length=(*lengths, round(length * factor), 2 * length, length // 2) if length else (),
        factor=(2 * factor, factor / 2, factor**2, *FACTORS) if factor else (),
    )
    tried: list[tuple[Any, Change]] = [
        (Default, {}),
        *((type(scaling), {**vars(scaling), **fields}) for fields in (*variants, *VARIANTS.get(type(scaling), []))),
        *((kind, {"factor": n}) for n in (factor, *FACTORS) for kind in (Linear, NTK)),
        *((Llama3, {"factor": n, "original_length": 8192}) for n in (8.0, 32.0)),  # of 3.1 and 3.2
    ]
    for kind, fields in tried:
        with suppress(InvalidArgument):
            changed = kind(**fields)
            yield {"scaling": changed}
            yield {"scaling": changed, "factor": changed.frequencies(right.span, right.base).attention_factor}


def _factors(right: Rotation, turns: list[Array]) -> list[float]:
    s, D = getattr(right.scaling, "factor", 1.0), right.head_dim
    yarn = 0.1 * math.log(s) + 1
    measured = [float(f"{np.median(np.abs(both)):.{n}g}") for both in turns[:1] for n in (3, 4, 8)]
    return [1.0, right.factor**2, right.factor**0.5, D**0.5, D**-0.5, yarn, yarn**2, s, s**0.5, 1 / s, *measured]


def _shifts(right: Rotation, seen: Mapping[str, Array], turns: list[Array]) -> Iterator[int]:
    """Offsets of all positions: the usual ones, and what the first pair of a period past 2,000 is ahead by."""
    yield from (1, -1, 2)
    for both, pair in product(turns, np.flatnonzero((right.theta > 0) & (right.theta < math.pi / 1000))[:1]):
        row = seen["positions"][:, 0].argmin()
        if pair < both.shape[1]:  # else of a layout in which fewer rotate
            yield round(np.angle(both[row, pair] * np.exp(-1j * right.angles(seen)[row, pair])) / right.theta[pair])


def _positions(right: Rotation, seen: Mapping[str, Array], known: Iterable[int]) -> list[Change]:
    """Where the port believes its tokens to stand, and by which axis a pair turns."""
    if "positions" not in seen:
        return []
    where = seen["positions"]
    lengths = sorted(
        n
        for n in {2**k for k in range(3, 31)} | set(known) | {int(p) for p in where[:, 0] if p > 1}
        if n <= where.max()
    )
    return each(
        last=sorted({n - 1 for n in lengths} | set(lengths)),
        period=lengths,
        counted=["rows", "heads"] if seen["heads"].any() else ["rows"],
        axes=_other_axes(right.axes, right.head_dim // 2) if any(right.axes) else (),
    )


def _other_axes(right: tuple[int, ...], pairs: int) -> Iterator[tuple[int, ...]]:
    """Other axes for the same pairs: laid out differently, in another order, with other counts, or one for all."""
    A, P = max(right) + 1, len(right)
    counts, orders = [right.count(axis) for axis in range(A)], list(permutations(range(A)))
    yield from ((axis,) * pairs for axis in range(A))
    yield from (tuple(order[axis] for axis in right) for order in orders)
    released = (sections for sections in SECTIONS if len(sections) == A and sum(sections) == P)
    for sections in (*permutations(counts), (*[P // A] * (A - 1), P - P // A * (A - 1)), *released):
        yield from (tuple(axis for axis in order for _ in range(sections[axis])) for order in orders)
        yield tuple(i % A if i < A * sections[i % A] else 0 for i in range(P))
    yield tuple(i % A for i in range(P))
