"""Ports of rotations: the arrays that a port may return, the rows of these arrays, and descriptions of mistakes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.formulas import COUNTED, PRODUCTS, SERIES, UNEVEN
from posenc.integrations.doctor.mistakes import LOGARITHM_TO_BASE_10, mistakes, other_lists
from posenc.integrations.doctor.plausible import plausible
from posenc.integrations.doctor.rotation import Rotation, by_pair
from posenc.integrations.doctor.search import BASES, Array, Kind, Rows, step
from posenc.integrations.position_table import briefly
from posenc.integrations.words import axes_in_words
from posenc.scaling import Default, Llama3, PerPair, Scaling

PROBED = np.array([0.0, 1, 2, 5, 40, 700, 5000, 70_000, 300_000])
"""Positions at which wrong rotations differ from each other. From the fourth on, positions differ between axes, as
in pictures.
"""


def vectors(right: Rotation, positions: Array, x: Array, rotated: Array) -> Rows:
    """Return a row for every vector, with its position on every axis and its index among tokens and heads."""
    where, D = np.atleast_2d(positions), right.head_dim
    if x.shape == rotated.shape and where.shape[1] not in x.shape[-2:-1] and where.shape[1] in x.shape[:-2]:
        x, rotated = (np.moveaxis(values, x.shape.index(where.shape[1]), -2) for values in (x, rotated))
    if x.shape != rotated.shape or x.shape[-2:] != (where.shape[1], D) or not x.size:
        raise InvalidArgument(
            f"x has shape {x.shape} and rotated has shape {rotated.shape}; both must have shape "
            f"(…, {where.shape[1]}, {D}): heads, tokens, channels of a head"
        )
    if 1 < len(where) <= max(right.axes, default=0):
        raise InvalidArgument(
            f"positions have {len(where)} axes; pass positions on one axis, or on all {max(right.axes) + 1} axes "
            "of the model"
        )
    H, T = x[None].shape[-3:-1]
    *_, head, token = map(np.ravel, np.indices(x[None].shape[:-1]))
    x, y, at = x.reshape(-1, D), rotated.reshape(-1, D), where.T
    return {
        "position": at[token],
        "row": np.stack([token] * len(where), -1),
        "head": np.stack([head] * len(where), -1),
        "split": at[(token * H + head) % T],
        "joined": at[(head * T + token) // H],
        "reversed": at[-1 - token],
        "first": at[0 * token],
        "last": at[0 * token - 1],
        "x": x,
        "y": y,
        "step": step(y),
    }


def tables(right: Rotation, positions: Array, cos: Array, sin: Array) -> Rows:
    """Convert tables of cos and sin to rows, in which each pair is (1, 0) before rotation and (cos, sin) after."""
    turns, _ = by_pair(cos + 1j * sin, right.turning)
    turns = np.concatenate((turns, np.ones((*turns.shape[:-1], max(0, right.turning - turns.shape[-1])))), -1)
    differ = turns.shape[-1] == 2 * right.pairs
    sides = [turns[..., place] for place in right.places] if differ else [turns, turns]
    width = sides[0].shape[-1]
    first, second = replace(right, turning=width).both_channels[0][:, :width]
    x, y = np.zeros((2, 1 + differ, *turns.shape[:-1], right.head_dim))
    x[0][..., first], y[0][..., first], y[0][..., second] = 1, sides[0].real, sides[1].imag
    x[1:][..., second], y[1:][..., first], y[1:][..., second] = 1, -sides[0].imag, sides[1].real
    return vectors(right, positions, x, y)


def frequencies(right: Rotation, inv_freq: Array) -> Rows:
    """Return a row for the frequency of every pair. Frequencies of 16 bits get no tolerance, because their error
    grows with the position.
    """
    pair, y = np.arange(len(inv_freq))[:, None], inv_freq[:, None]
    return {"pair": pair, "y": y, "step": np.zeros(y.shape)}


def probe(right: Rotation) -> Rows:
    """Return rows of random vectors at positions far apart."""
    x = np.random.default_rng(0).standard_normal((len(PROBED), right.head_dim))
    return vectors(right, PROBED + 3 * np.arange(8)[:, None] * (PROBED > 2), x, x)


def _channels(start: int, stride: int, distance: int) -> str:
    i = f"{start} + " * bool(start) + "2" * (stride == 2) + "i"
    return f"({i}, {i}+{distance})"


def _scalings(scaling: Scaling, right: Scaling) -> str:
    if isinstance(scaling, PerPair) and isinstance(right, PerPair):
        return "it has LongRoPE's factors for another length: " + " instead of ".join(
            f"{first:.4g}, {second:.4g} …" for first, second, *_ in (scaling.factors, right.factors)
        )
    if type(scaling) is type(right):
        return ", ".join(
            f"its {name} is {getattr(scaling, name)} instead of {value}"
            for name, value in vars(right).items()
            if getattr(scaling, name) != value
        ) + ", as without the smooth blend between them, or after swapping low_freq_factor and high_freq_factor" * (
            isinstance(scaling, Llama3)
            and isinstance(right, Llama3)
            and scaling.low_freq_factor == scaling.high_freq_factor
            and right.low_freq_factor != right.high_freq_factor
        )
    if scaling == Default():
        return f"omits the model's {_named(right)}"
    return f"it computes {_named(scaling)} instead of {_named(right)}"


def _named(scaling: Scaling) -> str:
    return (
        "no scaling"
        if scaling == Default()
        else "LongRoPE scaling"
        if isinstance(scaling, PerPair)
        else briefly(scaling).removesuffix("()")
    )


PHRASES: Mapping[str, Callable[[Any, Any], str]] = {
    "turning": lambda port, right: (
        f"rotates {2 * port.turning} of {right.head_dim} channels instead of {2 * right.turning}"
    ),
    "layout": lambda port, right: (
        f"rotates channels {_channels(*port.layout)} instead of {_channels(*right.layout)}"
    ),
    "span": lambda port, right: (
        f"its exponent is divided by {port.span // port.parts} instead of {right.span // right.parts}"
    ),
    "base": lambda port, right: (
        f"its base is {port.base:.10g} instead of {right.base:.10g}"
        + ", as with log10 in place of the natural logarithm" * (port.base == right.base**LOGARITHM_TO_BASE_10)
    ),
    "series": lambda port, right: SERIES[port.series][0].format(scaling=_named(right.scaling)),
    "ladder": lambda port, right: (
        f"its frequencies belong to layer type {port.ladder[0]!r} (base {port.ladder[1]:.10g})"
    ),
    "scaling": lambda port, right: _scalings(port.scaling, right.scaling),
    "factor": lambda port, right: (
        f"its attention factor is {port.factor:.6g} instead of {right.factor:.6g}"
        + {1.0: " (left out)", right.factor**2: " (applied twice)", 1 / right.factor: " (inverted)"}.get(
            port.factor, ""
        )
    ),
    "sign": lambda port, right: "rotates backwards: the sign of sin is wrong",
    "products": lambda port, right: PRODUCTS[port.products][0],
    "uneven": lambda port, right: UNEVEN[port.uneven][0],
    "axes": lambda port, right: (
        f"its pairs use {axes_in_words(port.axes)} instead of "
        + axes_in_words(right.axes, ordered=list(port.axes) != sorted(port.axes))
    ),
    "lists": lambda port, right: "its pairs have {} instead of {}".format(
        *(
            other_lists(right.axes, right.lists).get(lists, "the model's lists of frequencies")
            for lists in (port.lists, right.lists)
        )
    ),
    "counted": lambda port, right: COUNTED[port.counted],
    "shift": lambda port, right: f"its positions are off by {port.shift:+d}",
    "multiple": lambda port, right: (
        "it does not rotate at all"
        if not port.multiple
        else f"its positions are multiplied by {port.multiple:g}"
        + ", as after two rotations" * (port.multiple == 2)
        if port.multiple > 1
        else f"its positions are divided by {1 / port.multiple:g}" + ", and rounded down" * port.rounded_down
    ),
    "last": lambda port, right: f"its positions are clamped at {port.last:,}, the end of its table",
    "period": lambda port, right: f"its positions restart every {port.period:,}",
    "precision": lambda port, right: (
        f"its {', '.join(port.precision[1:])} are rounded to {port.precision[0]}, 16 bits"
    ),
    "written": lambda port, right: (
        f"writes a rotated pair to channels {_channels(*port.written)}: scores stay right if it does so "
        "for both queries and keys"
    ),
}

ROTARY = Kind(
    right=Rotation.of,
    forms={("positions", "x", "rotated"): vectors, ("positions", "cos", "sin"): tables, ("inv_freq",): frequencies},
    probe=probe,
    mistakes=mistakes,
    phrases=PHRASES,
    wanted="Pass positions 0, 1, 2 and some beyond the trained length, with all channels.",
    plausible=plausible,
    free={
        "base": ("base", lambda base, right: base in BASES),
        "written": (
            "written",
            lambda layout, right: layout in ((right.layout[0], 1, right.turning), (right.layout[0], 2, 1)),
        ),
        "pairing": ("layout", lambda layout, right: layout in ((0, 1, right.turning), (0, 2, 1))),
    },
)


UNTURNED = replace(
    ROTARY,
    right=lambda expected, numbers: replace(Rotation.of(expected, numbers), multiple=0.0, factor=1.0),
    mistakes=lambda right, rows, expected: [
        {"multiple": 1.0, "factor": right.scaling.frequencies(right.span, right.base).attention_factor}
    ],
    phrases=dict.fromkeys(
        ("multiple", "factor"), lambda port, right: "rotated, although the model does not rotate them"
    ),
)
"""A port of values, or of layers without positional encoding, which must not rotate anything."""
