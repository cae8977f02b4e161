"""A rotation as a port computes it, with one field for each choice that a port makes, such as the pairing or the
base.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from posenc.encodings.axes import AxisMap, axis_frequencies
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.formulas import PRODUCTS, SERIES, UNEVEN
from posenc.integrations.doctor.search import CLOSE, Array, Expected, Rows, rounded
from posenc.scaling import Default, Linear, Proportional, Scaling, planned

Layout = tuple[int, int, int]
"""(start, stride, distance): the channels of pair i are c = start + stride·i and c + distance. Half pairs have
``(0, 1, D/2)``, interleaved pairs ``(0, 2, 1)``. With stride 1, the distance is at least the number of pairs."""


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
        lists: the axis map that determines the frequency of each pair. If it is None, pairs use one list of
            frequencies in order.
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
        """Return the rotation that a port should compute. If the encoding has no head_dim, the arrays determine
        head_dim.
        """
        recipe = expected.recipe
        pairs = by_pair(numbers["cos"], 0)[0] if "cos" in numbers else numbers.get("inv_freq", np.empty(0))
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
    def both_channels(self) -> tuple[Array, Array]:
        """The channels from which pairs are read, and the channels to which they are written, both ``(2, P)``."""
        read, written = self.layout, self.written or self.layout
        return channels(*read, self.pairs, self.head_dim), channels(*written, self.pairs, self.head_dim)

    @property
    def parts(self) -> int:
        """The number of lists of frequencies: one per axis, or one in total."""
        return self.lists.axes if self.lists and self.lists.pairs_of_axis else 1

    @property
    def places(self) -> Array:
        """The first and the second channel of every pair, counted among the rotating channels only."""
        return channels(0, *self.layout[1:], self.pairs, 2 * self.pairs)

    @property
    def theta(self) -> Array:
        """The frequency of every pair, in radians per position."""
        if self.ladder:
            return fill(np.array(self.ladder[2]), self.pairs)
        theta, plain = (
            frequencies(scaling, self.turning, self.span, self.base, self.lists)
            for scaling in (self.scaling, Default())
        )
        _, scaled, changed = SERIES[self.series]
        return fill(changed(self, theta, plain) if isinstance(self.scaling, scaled) else theta, self.pairs)

    def rounded(self, values: Array, what: str) -> Array:
        """If ``precision`` is empty, return the values unchanged. If it lists ``what``, round them to its 16-bit
        type; if not, round them to float32.
        """
        low = self.precision[0] if what in self.precision[1:] else "float32"
        return rounded(values, low) if self.precision else values

    def positions(self, rows: Rows) -> Array:
        """Return the position of each row on every axis, as the port counts it, ``(N, A)``."""
        where = (rows[self.counted] + self.shift) * self.multiple
        where = np.fmod(np.minimum(np.floor(where) if self.rounded_down else where, self.last), self.period)
        return self.rounded(where, "positions")

    @property
    def turns(self) -> tuple[Array, Array]:
        """The axis and the frequency of each pair, both ``(1, P)``, or ``(2, P)`` if the two channels of a pair
        differ in them.
        """
        _, channels = UNEVEN[self.uneven]
        axes, theta = channels(self, fill(np.array(self.axes), self.pairs), self.rounded(self.theta, "frequencies"))
        return np.atleast_2d(axes), np.atleast_2d(theta)

    def angles(self, positions: Array, axes: Array, theta: Array) -> Array:
        """Return the angles of pairs with these axes and frequencies, as in ``turns``, at positions ``(…, N, A)``.
        The result has shape ``(…, N, 1, P)``, or ``(…, N, 2, P)`` if a pair's two channels have different angles.
        """
        return self.rounded(positions[..., np.minimum(axes, positions.shape[-1] - 1)] * theta, "angles")

    def rotate(self, vectors: Array, angles: Array, step: Array) -> tuple[Array, Array]:
        """Rotate pairs of channels, ``(N, 2, P)``, and return them with tolerances, both ``(…, N, 2, P)``."""
        first, second = vectors[:, :1], vectors[:, 1:]
        cos, sin = (self.factor * self.rounded(part(angles), "cos and sin") for part in (np.cos, np.sin))
        wide = (CLOSE * (2 + np.abs(angles)) + step[..., None]) * max(
            self.factor,
            self.factor**2 * (self.products == "overwritten"),  # which multiplies twice
            self.products.startswith("factor on"),  # which multiplies cos or sin by 1
        )
        if "cos and sin" in self.precision:  # a float32 error in the angle may give the next 16-bit number
            errors = (angles + sign * CLOSE * (1 + np.abs(angles)) for sign in (-1.0, 1.0))
            low, high = (self.rounded(np.stack((np.cos(a), np.sin(a))), "cos and sin") for a in errors)
            wide = wide + self.factor * np.abs(low - high).sum(0)
        a, b = PRODUCTS[self.products][1](first, second, cos, sin, self.sign)
        return np.stack((a[..., 0, :], b[..., -1, :]), -2), wide * (np.abs(first) + np.abs(second))

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        """Return predictions and their tolerances: frequencies if each row stands for a pair, and rotated vectors
        if each row stands for a position.
        """
        read, written = self.both_channels
        if "pair" in rows:
            theta = fill(self.rounded(self.theta, "frequencies"), rows["pair"].max() + 1)[rows["pair"]]
            return theta, (CLOSE + rows["step"]) * np.abs(theta)
        ours, room = rows["x"].copy(), (CLOSE + rows["step"]) * np.abs(rows["x"])
        angles = self.angles(self.positions(rows), *self.turns)
        ours[:, written], room[:, written] = self.rotate(ours[:, read], angles, rows["step"])
        return ours, room


def fill(values: Array, count: int) -> Array:
    """Return the first ``count`` values, padded with zeros."""
    return np.concatenate((values, np.zeros(count, values.dtype)))[:count]


def by_pair(table: Array, pairs: int) -> tuple[Array, str]:
    """If the table has more than ``pairs`` columns, and has every column twice, half a width apart or side by side,
    return one column per pair, or else all columns; and describe the columns in words.
    """
    half, every_other = table[..., : table.shape[-1] // 2], table[..., ::2]
    forms = (
        (half, np.concatenate((half, half), -1), "columns tiled (0, 1, …, 0, 1, …), as for half pairs"),
        (every_other, every_other.repeat(2, -1), "columns repeated (0, 0, 1, 1, …), as for interleaved pairs"),
        (table, table, "one column per pair"),
    )[2 * (table.shape[-1] <= pairs) :]
    return next((columns, words) for columns, both, words in forms if np.array_equal(both, table, equal_nan=True))


@lru_cache(maxsize=4096)
def channels(start: int, stride: int, distance: int, pairs: int, head_dim: int) -> Array:
    """Return the first and the second channel of every pair, ``(2, P)``."""
    first = start + stride * np.arange(pairs)
    second = first + (max(distance, pairs) if stride == 1 else distance)
    if second.max(initial=0) >= head_dim:
        raise InvalidArgument(f"{pairs} pairs do not fit into {head_dim} channels")
    return np.stack((first, second))


@lru_cache(maxsize=4096)
def frequencies(scaling: Scaling, pairs: int, span: int, base: float, lists: AxisMap | None = None) -> Array:
    """Return the frequencies of the first ``pairs`` pairs. They fall below 1/base if more than ``span`` channels
    rotate. If ``span`` is so small that base^(channels/span) overflows, an error is raised.
    """
    channels = 2 * lists.pairs if lists else max(span, 2 * pairs)
    port = float(np.float64(base) ** (channels / span))
    # With lists, exponents are divided by the axis's share of the span.
    theta = axis_frequencies(lists, scaling, port) if lists else scaling.frequencies(channels, port)
    return np.array(theta.exact, float)[:pairs]
