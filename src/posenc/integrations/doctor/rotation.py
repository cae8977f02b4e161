"""A rotation as a port computes it: a description whose every field is one of its decisions."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Self

import numpy as np

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.search import Array, rounded
from posenc.scaling import Default, Linear, Llama3, Proportional, Scaling, planned

SERIES: Mapping[str, tuple[str, Callable[["Rotation", Array], Array]]] = {
    "": ("its frequencies follow the formula", lambda port, theta: theta),
    "all 1": (
        "its exponent is 0 at every pair, as integer division makes it: all frequencies are 1",
        lambda port, theta: np.ones_like(theta),
    ),
    "growing": (
        "the minus of its exponent is missing: frequencies grow with the pair",
        lambda port, theta: 1 / theta,
    ),
    "backwards": ("its frequencies are in the reverse order", lambda port, theta: theta[::-1]),
    "from one": (
        "its exponent is off by one pair: the index begins at 1, so that no frequency is 1",
        lambda port, theta: theta * port.base ** (-2 / port.span),
    ),
    "degrees": (
        "its angles are in degrees: every frequency is multiplied by π/180",
        lambda port, theta: np.radians(theta),
    ),
    "blended backwards": (
        "its ramp runs the wrong way: fast pairs are scaled and slow ones kept",
        lambda port, theta: port.ladder_of(Default()) * (1 + 1 / getattr(port.scaling, "factor", 1.0)) - theta,
    ),
    "twice": (
        "applies {scaling} twice",
        lambda port, theta: (
            np.array(port.scaling.scaled([Decimal(one) for one in theta]), float)
            if isinstance(port.scaling, Llama3)
            else theta * theta / port.ladder_of(Default())
        ),
    ),
}
"""What a port can do to the frequencies of every pair at once: in words, and as a function of them."""

PRODUCTS: Mapping[str, tuple[str, Callable[..., tuple[Array, Array]]]] = {
    "": ("it rotates", lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, b * cos + sign * a * sin)),
    "reflected": (
        "the minus of a pair's first channel is missing: a reflection, (a·cos + b·sin, b·cos + a·sin)",
        lambda a, b, cos, sin, sign: (a * cos + sign * b * sin, b * cos + sign * a * sin),
    ),
    "exchanged": (
        "cos and sin are swapped: it has each where the other belongs",
        lambda a, b, cos, sin, sign: (a * sin - sign * b * cos, b * sin + sign * a * cos),
    ),
}
"""What a port can make of a pair (a, b): in words, and as a function of it."""


@dataclass(frozen=True)
class Rotation:
    """A rotation as somebody computes it.

    Args:
        head_dim: channels of a head.
        pairing: ``"half"`` for channels (s + i, s + i + distance), ``"interleaved"`` for (s + 2i, s + 2i + 1).
        distance: between the channels of a pair with halves paired.
        turning: number of pairs that rotate.
        span: what the exponent of the base is divided by: base^(−2i/span).
        base, scaling: of the frequencies.
        factor: what cos and sin are multiplied by.
        sign: −1 rotates backwards.
        axes: the axis of every pair.
        start: s, the first channel that rotates.
        ladder: the layer type whose frequencies are used, and those; None for its own.
        series: what else happens to the frequencies, a key of ``SERIES``.
        products: what becomes of a pair, a key of ``PRODUCTS``.
        moved: whether a rotated pair is written where the other pairing has it: neighbours come out as halves, or
            halves as neighbours.
        per_channel: whether cos has the frequency of half a pair later.
        counted: what a position is: ``positions``, or ``rows`` or ``heads``, the numbers of an axis of x.
        shift, multiple: what is added to a position, and what that is multiplied by; 0 rotates nothing.
        last, period: where positions are clamped, and after how many they start again.
        precision: what is rounded to 16 bits, of positions, frequencies, angles and cos and sin; and the type.
    """

    head_dim: int
    pairing: str
    distance: int
    turning: int
    span: int
    base: float
    scaling: Scaling
    factor: float
    sign: int
    axes: tuple[int, ...]
    start: int = 0
    ladder: tuple[str, tuple[float, ...]] | None = None
    series: str = ""
    products: str = ""
    moved: bool = False
    per_channel: bool = False
    counted: str = "positions"
    shift: int = 0
    multiple: float = 1.0
    last: float = math.inf
    period: float = math.inf
    precision: tuple[tuple[str, ...], str] = ((), "")

    @classmethod
    def of(cls, recipe: Recipe, head_dim: int) -> Self:
        """What a recipe of a rotation asks of a port."""
        rotary_dim, axes = int(recipe.get("rotary_dim") or head_dim), recipe.get("axes")
        scaling, base = planned(recipe.get("scaling") or Default(), None), float(recipe.get("base"))
        spectrum = scaling.frequencies(rotary_dim, base)
        turning = sum(theta != 0 for theta in spectrum.exact)
        if isinstance(scaling, Proportional):  # how many pairs turn is a field of its own
            scaling = Linear(scaling.factor) if scaling.factor != 1 else Default()
        return cls(
            head_dim=head_dim,
            pairing=recipe.get("pairing"),
            distance=rotary_dim // 2,
            turning=turning,
            span=rotary_dim,
            base=base,
            scaling=scaling,
            factor=spectrum.attention_factor,
            sign=-1 if recipe.get("backwards") else 1,
            axes=axes.axis_of_pair[:turning] if axes else (0,) * turning,
        )

    @property
    def pairs(self) -> int:
        """Number of pairs, with those whose frequency is 0."""
        return max(self.turning, self.distance)

    @property
    def channels(self) -> tuple[Array, Array]:
        """The first and the second channel of every pair."""
        stride, distance = (1, self.distance) if self.pairing == "half" else (2, 1)
        first = self.start + stride * np.arange(self.pairs)
        if (first + distance).max(initial=0) >= self.head_dim:
            raise InvalidArgument(f"{self.pairs} pairs {self.in_words} do not fit into {self.head_dim} channels")
        return first, first + distance

    @property
    def written(self) -> "Rotation":
        """This, by the channels to which it writes a rotated pair."""
        other = "interleaved" if self.pairing == "half" else "half"
        return replace(self, pairing=other, distance=self.pairs) if self.moved else self

    @property
    def theta(self) -> Array:
        """The inverse frequency of every pair."""
        own = SERIES[self.series][1](self, self.ladder_of(self.scaling))
        return fill(np.array(self.ladder[1]) if self.ladder else own, self.pairs)

    def ladder_of(self, scaling: Scaling) -> Array:
        """Frequencies under a scaling; an exponent over fewer channels than rotate runs on below 1/base."""
        channels = max(self.span, 2 * self.turning)
        return _frequencies(scaling, channels, self.base ** (channels / self.span))[: self.turning]

    def rounded(self, values: Array, what: str) -> Array:
        """To 16 bits, if ``precision`` is of this."""
        return rounded(values, self.precision[1]) if what in self.precision[0] else values

    def angles(self, seen: Mapping[str, Array]) -> Array:
        """What every row turns every pair by, ``(N, P)``."""
        where = np.minimum((seen[self.counted] + self.shift) * self.multiple, self.last)
        where = self.rounded(np.fmod(where, self.period), "positions")
        theta = self.rounded(self.theta, "frequencies")
        if self.precision[0]:  # of a product in float32, as ports have it
            where, theta = where.astype(np.float32), theta.astype(np.float32)
        axes = np.minimum(fill(np.array(self.axes), self.pairs), where.shape[1] - 1)
        return self.rounded(where[:, axes] * theta, "angles")

    @property
    def in_words(self) -> str:
        """Its channels, for a sentence."""
        s = f"{self.start} + " if self.start else ""
        return f"({s}i, {s}i+{self.distance})" if self.pairing == "half" else f"({s}2i, {s}2i+1)"


def fill(values: Array, count: int) -> Array:
    """The first ``count`` of them, and zeros where there are fewer."""
    return np.concatenate((values, np.zeros(count, values.dtype)))[:count]


@lru_cache(maxsize=4096)
def _frequencies(scaling: Scaling, span: int, base: float) -> Array:
    return np.array([float(theta) for theta in scaling.frequencies(span, base).exact])
