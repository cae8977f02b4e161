"""The mistakes that a port of a rotation can make, each as a change to the right ``Rotation``.

For some mistakes, the wrong value is measured from the port's numbers.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np

from posenc.encodings.axes import AxisMap
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.formulas import COUNTED, PRODUCTS, SERIES, UNEVEN
from posenc.integrations.doctor.rotation import Rotation
from posenc.integrations.doctor.search import BASES, LOW, Array, Change, Expected, Rows, each
from posenc.scaling import NTK, Default, LengthScaling, Linear, Llama3, YaRN

FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
SECTIONS = ((16, 24, 24), (24, 20, 20), (8, 12, 12), (11, 11, 10), (22, 22, 20), (22, 21, 21))
"""Scaling factors and sections of released models, which a port may have copied."""
LOGARITHM_TO_BASE_10 = 1 / math.log(10)
"""A port that uses log10 instead of the natural logarithm computes with the base raised to this power."""
ROUNDED = (
    ("angles",),
    ("positions",),
    ("frequencies",),
    ("cos and sin",),
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
    Llama3: [
        {"low_freq_factor": low, "high_freq_factor": high}
        for low, high in ((1.0, 2.0), (1.0, 4.0), (1.0, 8.0), (2.0, 4.0), (1.0, 1.0), (4.0, 4.0))
    ],
}
"""Wrong settings that are usual in ports, by the type of the scaling."""


def mistakes(right: Rotation, rows: Sequence[Rows], expected: Expected) -> list[Change]:
    """Return all mistakes to try for this model, including those with a value measured from the port's numbers."""
    vectors = [numbers for numbers in rows if "x" in numbers][:1]
    ladders = (change for numbers in rows if "pair" in numbers for change in _ladders(right, numbers["y"][:, 0]))
    D, d, f, s = right.head_dim, 2 * right.turning, right.factor, getattr(right.scaling, "factor", 1.0)
    stated, slower = expected.recipe.get("scaling"), (0.5, 0.25, 0.125, 1 / 16, 1 / 32)
    yarn, ntk = 0.1 * math.log(s) + 1, (right.base * s, right.base * s ** (d / max(1, d - 2)))
    return [
        *_channels(right),
        *({"span": n, "base": base} for n in {d, D} - {right.span} for base in BASES if base != right.base),
        *each(
            ladder=[
                (name, *other)
                for name, other in expected.ladders.items()
                if name != expected.layer_type and other[1] != tuple(right.theta)
            ],
            span=[n for n in (d, D, d // 2, 2 * d, 2 * D, D // 2, d - 2, d - 1) if n > 0],
            base=(*BASES, 1e3, 1e2, right.base**LOGARITHM_TO_BASE_10, *ntk),
            scaling=[Default(), *(stated.plan(n) for n in expected.lengths if isinstance(stated, LengthScaling))],
            series=[
                name
                for name, (_, scaled, _) in SERIES.items()
                if isinstance(right.scaling, scaled) and (name != "still first" or right.pairs > right.turning)
            ],
        ),
        {"series": "twice", "factor": f**2},
        *ladders,
        *_scalings(right, expected.lengths),
        *each(
            sign=[-right.sign],
            products=PRODUCTS,
            uneven=[name for name in UNEVEN if name != "doubled" or any(right.axes)],
            factor=(1.0, f**2, f**0.5, 1 / f, D**0.5, D**-0.5, yarn, yarn**2, s, s**0.5, 1 / s),
            shift=(1, -1, 2),
            multiple=(2.0, *slower, 0.0),
            precision=[(low, *names) for names in (ROUNDED if vectors else [("frequencies",)]) for low in LOW],
        ),
        *({"multiple": multiple, "rounded_down": True} for multiple in slower[:3]),
        *(change for seen in vectors for change in _of_vectors(right, seen, expected.lengths)),
    ]


def _channels(right: Rotation) -> list[Change]:
    """Return changes to the channels that form pairs and to the number of pairs that rotate."""
    P, D = right.turning, right.head_dim
    steps = [(2, 1), *((1, distance) for distance in (P, D // 2, D // 4) if distance >= P)]
    layouts = [layout for start in (0, D - 2 * P) for step in steps if (layout := (start, *step)) != right.layout]
    return [
        *each(layout=layouts),
        *({"layout": layout, "written": right.layout} for layout in layouts),
        *each(written=layouts),
        {"layout": (0, 1, D // 2), "span": D},  # frequencies over the whole head, padded with zeros
        *(
            {"turning": n, **layout, **span}
            for n in (D // 2, P // 2, 2 * P, D // 4, D // 8)
            for span, layout in product(({"span": 2 * n}, {}), ({}, {"layout": (0, 1, n)}))
            if n not in (0, P)
        ),
    ]


def _of_vectors(right: Rotation, seen: Rows, lengths: Iterable[int]) -> Iterator[Change]:
    """Yield the changes to try if the port's numbers are rotated vectors: changes of the positions, axes, lists of
    frequencies, base, span and factor.

    The values of base, span, factor and shift are measured from the port's numbers. The position at which the port
    clamps or restarts positions is also measured; in addition, powers of two and the lengths in the config are
    tried. Several ways of pairing channels are tried. With each of them, values are measured only if the port
    multiplies the norms of all pairs by the same factor. Positions are measured with the first pair whose period
    exceeds 2,000, and with the first pair whose period exceeds twice the last position. Clamped and restarted
    positions are found by their lag, which is the right position minus the position that the port used. If a port
    clamps positions, the lag is the distance beyond the end of the table. If a port restarts positions, the lag is
    a multiple of the period.
    """
    rows, theta = {name: values[:256] for name, values in seen.items()}, right.theta  # enough rows to measure
    reaches, at = (1000, rows["position"].max()), rows["position"][:, 0]
    slow = [pair for reach in reaches for pair in np.flatnonzero((theta > 0) & (theta * reach < math.pi))[:1]]
    ends, angles = {2**k for k in range(8, 31)} | set(lengths), right.angles(right.positions(rows), *right.turns)
    for port in (right, *(replace(right, **dict(change)) for change in _channels(right))):
        with suppress(InvalidArgument, IndexError), np.errstate(all="ignore"):  # if the head has too few channels
            (a, b), (c, d) = port.both_channels
            turns = (rows["y"][:, c] + 1j * rows["y"][:, d]) / (rows["x"][:, a] + 1j * rows["x"][:, b])
            factor = np.median(np.abs(turns))
            if np.abs(np.abs(turns) / factor - 1).max() < 0.02:
                ahead = np.angle(turns[:, slow] * np.exp(-1j * angles[:, 0, slow])) / theta[slow]
                late = -np.rint(ahead).astype(int)
                ends.update((int(at.max()) - late[at.argmax()]).tolist())
                if len(np.unique(late[late > 0])) > 1:  # a single lag determines no period
                    ends.update(np.gcd.reduce(late).tolist())
                for i, j in np.argwhere(at - at[:, None] == 1)[:1]:
                    yield from _ladders(right, np.abs(np.angle(turns[j] / turns[i])))
                yield from each(
                    factor=[float(f"{factor:.{digits}g}") for digits in (3, 4, 8)],
                    shift=(-late[at.argmin()]).tolist(),
                )
    periods = sorted(n for n in ends if 0 < n <= seen["position"].max())
    yield from each(
        last=[n for n in sorted({n - 1 for n in periods} | set(periods)) if n < seen["position"].max()],
        period=periods,
        counted=[name for name in COUNTED if seen["head"].any() or name not in ("head", "split", "joined")],
        axes=_other_axes(right.axes, right.head_dim // 2) if any(right.axes) else (),
        lists=other_lists(right.axes, right.lists) if any(right.axes) else (),
    )


@np.errstate(all="ignore")  # the first frequency is 1 for every base
def _ladders(right: Rotation, theta: Array) -> list[Change]:
    """Return changes to the base or to the span that reproduce measured frequencies.

    The span is the divisor in the exponent of the base. A base is computed for each span that a port may use: the
    right span, the number of rotating channels, and the number of all channels.
    """
    best = (np.arange(len(theta)) * theta * (theta < 1)).argmax()
    bases = theta[best] ** (-np.array((right.span, 2 * right.turning, right.head_dim)) / (2 * best))
    bases = bases[(bases > 1) & (bases < 1e12)]
    span = -2 * best * math.log(right.base) / np.log(theta[best])
    return each(
        base=[
            *(float(f"{base:.{n}g}") for base in bases for n in (1, 2, 3, 4)),
            *np.round(bases[bases < 1e6]).tolist(),  # such as 65536
        ],
        span=[
            *([round(span)] if 0.5 < span <= 4 * right.head_dim else []),
            *([64 * round(span / 64)] if 4 < span / right.head_dim <= 256 else []),  # the width of a model
        ],
    )


def _scalings(right: Rotation, lengths: Iterable[int]) -> Iterator[Change]:
    """Yield each wrong scaling twice: with the model's attention factor, and with its own attention factor."""
    kind, numbers = type(right.scaling), vars(right.scaling)
    factor, length = numbers.get("factor", 0), numbers.get("original_length", 0)
    variants = each(
        original_length=(*lengths, round(length * factor), *(2**k for k in range(11, 18))) if length else (),
        factor=(2 * factor, factor / 2, factor**2, *FACTORS) if factor else (),
    )
    tried: list[tuple[Any, Change]] = [
        (Default, {}),
        *((kind, {**numbers, **fields}) for fields in (*variants, *VARIANTS.get(kind, []))),
        *((other, {"factor": n}) for n in (factor, *FACTORS) for other in (Linear, NTK)),
        *((Llama3, {"factor": n, "original_length": 8192}) for n in (8.0, 32.0)),  # of Llama 3.1 and 3.2
    ]
    for method, fields in tried:
        with suppress(InvalidArgument):
            scaling = method(**fields)
            own = scaling.frequencies(right.span, right.base).attention_factor
            yield from ({"scaling": scaling}, {"scaling": scaling, "factor": own})


def other_lists(axes: tuple[int, ...], right: AxisMap | None) -> dict[AxisMap | None, str]:
    """Return descriptions of axis maps, which determine the frequency of each pair. The keys of the dict are the
    maps; the key None stands for one list of frequencies, in order, for all pairs.
    """
    A, axis_map = max(axes) + 1, right or AxisMap(axes)
    counts, ranks = [axes.count(axis) for axis in range(A)], [axes[:i].count(axis) for i, axis in enumerate(axes)]
    separate = replace(axis_map, index_of_pair=tuple(ranks), pairs_of_axis=tuple(counts))
    dealt = tuple(rank * A + axis for rank, axis in zip(ranks, axes, strict=True))
    indices = {dealt: "one list of frequencies dealt to the axes in turn"} if len(set(counts)) == 1 else {}
    indices[tuple(ranks)] = "the same first frequencies for each axis"
    return {
        None: "one list of frequencies",
        separate: "a list of frequencies for each axis",
        **{replace(separate, index_of_pair=index, pairs_of_axis=None): words for index, words in indices.items()},
    }


def _other_axes(right: tuple[int, ...], pairs: int) -> list[tuple[int, ...]]:
    """Return other ways to assign the pairs to axes: another layout, another order of the axes, other numbers of
    pairs per axis, or one axis for all pairs.
    """
    A, P = max(right) + 1, len(right)
    counts, orders = [right.count(axis) for axis in range(A)], list(permutations(range(A)))
    equal = (*[P // A] * (A - 1), P - P // A * (A - 1))
    others = [s for s in (*permutations(counts), equal, *SECTIONS) if len(s) == A and sum(s) == P]
    return [
        *((axis,) * pairs for axis in range(A)),
        *(tuple(order[axis] for axis in right) for order in orders),
        *(tuple(axis for axis in order for _ in range(sections[axis])) for sections in others for order in orders),
        *(tuple(i % A if i < A * sections[i % A] else 0 for i in range(P)) for sections in others),
        tuple(i % A for i in range(P)),
    ]
