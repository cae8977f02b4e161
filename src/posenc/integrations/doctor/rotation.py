"""A rotation as a port computes it: a description with one field per decision."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Self, cast

import numpy as np

from posenc.encodings.axes import AxisMap, axis_frequencies
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.search import CLOSE, Array, Expected, Rows, rounded
from posenc.scaling import NTK, Default, Linear, Llama3, Proportional, Scaling, YaRN, planned

Layout = tuple[int, int, int]
"""(start, stride, distance): the channels of pair i are c = start + stride·i and c + distance. Half pairs have
``(0, 1, D/2)``, interleaved pairs ``(0, 2, 1)``. With stride 1, the distance is at least the number of pairs."""

SERIES: Mapping[str, tuple[str, type[Scaling], Callable[[Any, Array, Array], Array]]] = {
    "": ("its frequencies are the model's", Scaling, lambda port, theta, plain: theta),
    "all 1": (
        "its exponent is 0 for every pair, as after integer division: all frequencies are 1",
        Scaling,
        lambda port, theta, plain: np.ones_like(theta),
    ),
    "growing": (
        "its exponent lacks the minus sign: frequencies grow with the pair",
        Scaling,
        lambda port, theta, plain: 1 / theta,
    ),
    "backwards": ("its frequencies are in the reverse order", Scaling, lambda port, theta, plain: theta[::-1]),
    "from one": (
        "its exponent is off by one pair: the index begins at 1, so no frequency is 1",
        Scaling,
        lambda port, theta, plain: theta * port.base ** (-2 / port.span),
    ),
    "degrees": (
        "its angles are in degrees: every frequency is multiplied by π/180",
        Scaling,
        lambda port, theta, plain: np.radians(theta),
    ),
    "turns": (
        "its angles are in turns: every frequency is multiplied by 2π",
        Scaling,
        lambda port, theta, plain: 2 * math.pi * theta,
    ),
    "blended backwards": (
        "its ramp is reversed: fast pairs are scaled and slow ones kept",
        Scaling,
        lambda port, theta, plain: plain * (1 + 1 / port.slower) - theta,
    ),
    "ends swapped": (
        "its beta_fast and beta_slow are swapped: fast pairs are scaled and slow ones kept",
        YaRN,
        lambda port, theta, plain: port.with_swapped_ends(plain),
    ),
    "ends equal": (
        "its beta_fast and beta_slow are equal or swapped: its ramp is a step, slow pairs are scaled, others kept",
        YaRN,
        lambda port, theta, plain: (
            replace(port, scaling=replace(port.scaling, beta_fast=port.scaling.beta_slow), series="").theta
        ),
    ),
    "ramp kept": (
        "its ramp is still over the channels that rotate",
        YaRN,
        lambda port, theta, plain: port.with_ramp_over(2 * port.turning, plain),
    ),
    "ramp doubled": (
        "its ramp is over twice as many channels as rotate",
        YaRN,
        lambda port, theta, plain: port.with_ramp_over(4 * port.turning, plain),
    ),
    "ramp of the head": (
        "its ramp is over all channels of the head",
        YaRN,
        lambda port, theta, plain: port.with_ramp_over(port.head_dim, plain),
    ),
    "no exponent": (
        "its base is multiplied by NTK's factor itself, without the exponent d/(d − 2)",
        NTK,
        lambda port, theta, plain: replace(port, base=port.base * port.slower, scaling=Default(), series="").theta,
    ),
    "blend reversed": (
        "its blend between low_freq_factor and high_freq_factor is reversed: smooth and 1 − smooth are exchanged",
        Llama3,
        lambda port, theta, plain: np.where(
            np.isclose(theta, plain, atol=0) | np.isclose(theta * port.slower, plain, atol=0),
            theta,
            plain * (1 + 1 / port.slower) - theta,
        ),
    ),
    "inverted": (
        "{scaling} is inverted: scaled frequencies are multiplied by the factor instead of divided",
        Scaling,
        lambda port, theta, plain: plain * plain / theta,
    ),
    "twice": (
        "applies {scaling} twice",
        Scaling,
        lambda port, theta, plain: (
            np.array(port.scaling.scaled(list(map(Decimal, theta))), float)
            if isinstance(port.scaling, Llama3)
            else theta * theta / plain
        ),
    ),
}
"""Possible changes to all frequencies: each in words, the type of scaling to which it applies, and a function of
the port's description and its scaled and unscaled frequencies.
"""

UNEVEN: Mapping[str, tuple[str, Callable[["Rotation", Array, Array], Iterable[tuple[Array, Array]]]]] = {
    "": ("the channels of a pair share an angle", lambda port, axes, theta: [(axes, theta)]),
    "by channel": (
        "every channel has its own frequency, but two should share one",
        lambda port, axes, theta: ((axes, theta), (axes, theta * port.base ** (-1 / port.span))),
    ),
    "repeated": (
        "its angles are repeated (0, 0, 1, 1, …), as for interleaved pairs, but it rotates half pairs",
        lambda port, axes, theta: ((axes[i], theta[i]) for i in port.places // 2),
    ),
    "tiled": (
        "its angles are tiled (0, 1, …, 0, 1, …), as for half pairs, but it rotates interleaved pairs",
        lambda port, axes, theta: ((axes[i], theta[i]) for i in port.places % port.pairs),
    ),
    "doubled": (
        "its sections are doubled, so that the two channels of a pair belong to different axes",
        lambda port, axes, theta: ((half, theta) for half in np.split(axes.repeat(2), 2)),
    ),
}
"""How the channels of a pair get their angles, each in words and as a function of the pairs' axes and frequencies.
The function returns axes and frequencies twice, for first and second channels, or once if both are equal.
"""

PRODUCTS: Mapping[str, tuple[str, Callable[..., tuple[Array, Array]]]] = {
    "": ("it rotates", lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, b * cos + sign * a * sin)),
    "reflected": (
        "the first channel of each pair lacks its minus sign: (a·cos + b·sin, b·cos + a·sin)",
        lambda a, b, cos, sin, sign: (a * cos + sign * b * sin, b * cos + sign * a * sin),
    ),
    "subtracted": (
        "the second channel of each pair has a minus sign too: (a·cos − b·sin, b·cos − a·sin)",
        lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, b * cos - sign * a * sin),
    ),
    "overwritten": (
        "the second channel of each pair is computed from the first one, which was already overwritten",
        lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, b * cos + sign * (a * cos - sign * b * sin) * sin),
    ),
    "exchanged": (
        "cos and sin are swapped",
        lambda a, b, cos, sin, sign: (a * sin - sign * b * cos, b * sin + sign * a * cos),
    ),
}
"""Possible formulas for the rotation of a pair (a, b), each in words and as a function."""

COUNTED: Mapping[str, str] = {
    "position": "counts positions",
    "row": "counts rows 0, 1, 2 … and ignores the positions",
    "head": "heads and length are swapped: it counts positions along the axis of heads",
    "split": "heads and length are swapped by a reshape instead of a transpose",
    "joined": "heads and length are swapped by a reshape instead of a transpose",
    "reversed": "its positions are in the reverse order: the first token has the last position",
    "first": "every token has the position of the first",
    "last": "every token has the position of the last",
}
"""What a port may count as a token's position, in words. ``split`` and ``joined`` are positions of other tokens."""


@dataclass(frozen=True)
class Rotation:
    """A rotation as a port computes it.

    Args:
        head_dim: the number of channels of a head.
        layout: the channels of every pair.
        turning: the number of pairs that rotate.
        span: the divisor in the exponent of the base: base^(−2i/span).
        base, scaling: the base and the scaling of the frequencies.
        factor: the number by which cos and sin are multiplied.
        sign: −1 to rotate backwards.
        axes: the axis of every pair.
        lists: the axis map that determines the frequency of each pair; None for one list, in the order of pairs.
        written: the channels to which a rotated pair is written; None for the channels in ``layout``.
        ladder: (name, base, frequencies) of another layer type whose frequencies replace the right ones, or None.
        series: how the frequencies are changed, as a key of ``SERIES``.
        products: the formula for a pair, as a key of ``PRODUCTS``.
        uneven: how the two channels of a pair get their angles, as a key of ``UNEVEN``.
        counted: what counts as the position, as a key of ``COUNTED``.
        shift: a number that is added to every position.
        multiple: the number by which shifted positions are multiplied; with 0, nothing rotates.
        rounded_down: whether positions are rounded down after they are multiplied.
        last: the largest position; larger positions are replaced by it.
        period: the number of positions after which positions restart at 0.
        precision: a 16-bit type, and what is rounded to it: positions, frequencies, angles, or cos and sin.
    """

    head_dim: int
    layout: Layout
    turning: int
    span: int
    base: float
    scaling: Scaling
    factor: float
    sign: int
    axes: tuple[int, ...]
    lists: AxisMap | None = None
    written: Layout | None = None
    ladder: tuple[str, float, tuple[float, ...]] | None = None
    series: str = ""
    products: str = ""
    uneven: str = ""
    counted: str = "position"
    shift: int = 0
    multiple: float = 1.0
    rounded_down: bool = False
    last: float = math.inf
    period: float = math.inf
    precision: tuple[str, ...] = ()

    @classmethod
    def of(cls, expected: Expected, numbers: Mapping[str, Array]) -> Self:
        """Return the right description. If the encoding has no head_dim, the arrays determine it."""
        recipe = expected.recipe
        pairs = by_pair(numbers["cos"], 0) if "cos" in numbers else numbers.get("inv_freq", np.empty(0))
        channels = numbers["x"].shape[-1] if "x" in numbers else 2 * pairs.shape[-1]
        head_dim, axes = int(recipe.get("head_dim") or channels), recipe.get("axes")
        start = (channels - head_dim) * (channels == expected.query_dim)  # the last channels of such a query rotate
        rotary_dim = int(recipe.get("rotary_dim") or head_dim)
        scaling = planned(recipe.get("scaling") or Default(), next(reversed(expected.lengths), None))
        base = float(recipe.get("base"))
        spectrum = scaling.frequencies(rotary_dim, base)
        turning = sum(theta != 0 for theta in spectrum.exact)
        if isinstance(scaling, Proportional):  # the number of rotating pairs is a separate field
            scaling = Linear(scaling.factor) if scaling.factor != 1 else Default()
        return cls(
            head_dim=start + head_dim,
            layout=(start, 1, rotary_dim // 2) if recipe.get("pairing") == "half" else (start, 2, 1),
            turning=turning,
            span=rotary_dim,
            base=base,
            scaling=scaling,
            factor=spectrum.attention_factor,
            sign=-1 if recipe.get("backwards") else 1,
            axes=axes.axis_of_pair[:turning] if axes else (0,) * turning,
            lists=axes if axes and axes.index_of_pair else None,
        )

    @property
    def pairs(self) -> int:
        """The number of pairs, including pairs with frequency 0."""
        return max(self.turning, self.layout[2])

    @property
    def both_channels(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The channels from which every pair is read, and the channels to which every pair is written."""
        read, written = self.layout, self.written or self.layout
        return channels(*read, self.pairs, self.head_dim), channels(*written, self.pairs, self.head_dim)

    @property
    def parts(self) -> int:
        """The number of lists of frequencies: one per axis, or one in total."""
        return self.lists.axes if self.lists and self.lists.pairs_of_axis else 1

    @property
    def slower(self) -> float:
        """The factor by which the scaling divides slow frequencies."""
        return float(getattr(self.scaling, "factor", 1.0))

    @property
    def places(self) -> Array:
        """The first and the second channel of every pair, counted among the rotating channels only."""
        return np.stack(channels(0, *self.layout[1:], self.pairs, 2 * self.pairs))

    def with_swapped_ends(self, plain: Array) -> Array:
        """Return the frequencies that the code of YaRN's authors computes from swapped betas. The ramp is reversed,
        and its ends are rounded inwards to whole pairs.
        """
        first, last = replace(cast(YaRN, self.scaling), truncate=False).ends(self.span, self.base)
        keep = np.interp(np.arange(len(plain)), sorted((math.ceil(first), math.floor(last))), (0, 1))
        return plain * keep + plain / self.slower * (1 - keep)

    def with_ramp_over(self, channels: int, plain: Array) -> Array:
        """Return the frequencies with YaRN's ramp over another number of channels."""
        other = replace(self, span=channels, series="")
        return plain * (other.theta / replace(other, scaling=Default()).theta)[: self.turning]

    @property
    def theta(self) -> Array:
        """The inverse frequency of every pair."""
        if self.ladder:
            return fill(np.array(self.ladder[2]), self.pairs)
        theta, plain = (
            frequencies(scaling, self.turning, self.span, self.base, self.lists)
            for scaling in (self.scaling, Default())
        )
        _, scaled, changed = SERIES[self.series]
        return fill(changed(self, theta, plain) if isinstance(self.scaling, scaled) else theta, self.pairs)

    def rounded(self, values: Array, what: str) -> Array:
        """Round values to 16 bits if ``precision`` lists ``what``, or to float32 if it lists only other things."""
        low = self.precision[0] if what in self.precision[1:] else "float32"
        return rounded(values, low) if self.precision else values

    def angles(self, rows: Rows) -> Array:
        """Return each pair's angle in each row, ``(1, N, P)``, or two if its channels differ, ``(2, N, P)``."""
        where = (rows[self.counted] + self.shift) * self.multiple
        where = np.fmod(np.minimum(np.floor(where) if self.rounded_down else where, self.last), self.period)
        where = self.rounded(where, "positions")
        axes = np.minimum(fill(np.array(self.axes), self.pairs), where.shape[1] - 1)
        sides = UNEVEN[self.uneven][1](self, axes, self.rounded(self.theta, "frequencies"))
        return self.rounded(np.stack([where[:, axes] * theta for axes, theta in sides]), "angles")

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        """Predict frequencies if each row stands for a pair, or else rotated vectors; also return tolerances."""
        (a, b), (c, d) = self.both_channels
        if "pair" in rows:
            theta = fill(self.rounded(self.theta, "frequencies"), rows["pair"].max() + 1)[rows["pair"]]
            return theta, (CLOSE + rows["step"]) * np.abs(theta)
        x, angles = rows["x"], self.angles(rows)
        cos, sin = (self.factor * self.rounded(part(angles), "cos and sin") for part in (np.cos, np.sin))
        wide = (CLOSE * (2 + np.abs(angles)) + rows["step"]) * self.factor
        if "cos and sin" in self.precision:  # an error of float32 in the angle may round to the next 16-bit number
            errors = (angles + sign * CLOSE * (1 + np.abs(angles)) for sign in (-1.0, 1.0))
            low, high = (self.rounded(np.stack((np.cos(a), np.sin(a))), "cos and sin") for a in errors)
            wide = wide + self.factor * np.abs(low - high).sum(0)
        ours, room = x.copy(), (CLOSE + rows["step"]) * np.abs(x)
        first, second = PRODUCTS[self.products][1](x[:, a], x[:, b], cos, sin, self.sign)
        room_of_pair = wide * (np.abs(x[:, a]) + np.abs(x[:, b]))
        ours[:, c], ours[:, d] = first[0], second[-1]
        room[:, c], room[:, d] = room_of_pair[0], room_of_pair[-1]
        return ours, room


def fill(values: Array, count: int) -> Array:
    """Return the first ``count`` values, padded with zeros."""
    return np.concatenate((values, np.zeros(count, values.dtype)))[:count]


def by_pair(table: Array, pairs: int) -> Array:
    """If a table has every column twice, half a width apart or side by side, keep one column per pair."""
    half, every_other = table[..., : table.shape[-1] // 2], table[..., ::2]
    twice = ((half, np.concatenate((half, half), -1)), (every_other, every_other.repeat(2, -1)))
    equal = (columns for columns, both in twice if np.array_equal(both, table, equal_nan=True))
    return next(equal, table) if table.shape[-1] > pairs else table


@lru_cache(maxsize=4096)
def channels(start: int, stride: int, distance: int, pairs: int, head_dim: int) -> tuple[Array, Array]:
    """Return the first and the second channel of every pair."""
    first = start + stride * np.arange(pairs)
    second = first + (max(distance, pairs) if stride == 1 else distance)
    if second.max(initial=0) >= head_dim:
        raise InvalidArgument(f"{pairs} pairs do not fit into {head_dim} channels")
    return first, second


@lru_cache(maxsize=4096)
def frequencies(scaling: Scaling, pairs: int, span: int, base: float, lists: AxisMap | None = None) -> Array:
    """Return the frequencies of the first pairs. They fall below 1/base if more than ``span`` channels rotate."""
    if lists:  # a pair of an axis has an exponent over its axis's share of the span
        port = base ** (2 * lists.pairs / span)
        return np.array(axis_frequencies(lists, scaling, port).exact, float)[:pairs]
    channels = max(span, 2 * pairs)
    return np.array(scaling.frequencies(channels, base ** (channels / span)).exact[:pairs], float)
