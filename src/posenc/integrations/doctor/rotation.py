"""A rotation as a port computes it: a description whose every field is one of its decisions."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.search import Array, rounded
from posenc.scaling import Default, Llama3, Scaling

SERIES: Mapping[str, tuple[str, Callable[["Rotation", Array], Array]]] = {
    "": ("its frequencies follow the formula", lambda port, theta: theta),
    "growing": (
        "the minus of its exponent is missing: frequencies grow with the pair",
        lambda port, theta: 1 / theta,
    ),
    "backwards": ("its frequencies are in the reverse order", lambda port, theta: theta[::-1]),
    "from one": (
        "its exponent is off by one pair: the index begins at 1, so that no frequency is 1",
        lambda port, theta: theta * port.base ** (-2 / port.span if port.span else 0),
    ),
    "degrees": (
        "its angles are in degrees: every frequency is multiplied by π/180",
        lambda port, theta: np.radians(theta),
    ),
    "blended backwards": (
        "its ramp runs the wrong way: fast pairs are scaled and slow ones kept",
        lambda port, theta: port.ladder_of(Default()) * (1 + 1 / getattr(port.scaling, "factor", 1.0)) - theta,
    ),
}
"""What a port can do to the frequencies of every pair at once: in words, and as a function of them."""

PRODUCTS = {
    "reflected": "the minus of a pair's first channel is missing: a reflection, (a·cos + b·sin, b·cos + a·sin)",
    "exchanged": "cos and sin are swapped: it has each where the other belongs",
}
"""What a port can make of a pair in place of (a·cos − b·sin, b·cos + a·sin), in words."""


@dataclass(frozen=True)
class Rotation:
    """A rotation as somebody computes it.

    Args:
        head_dim: channels of a head.
        pairing: ``"half"`` for channels (s + i, s + i + distance), ``"interleaved"`` for (s + 2i, s + 2i + 1).
        distance: between the channels of a pair with halves paired.
        start: s, the first channel that rotates.
        turning: number of pairs that rotate.
        span: what the exponent of the base is divided by: base^(−2i/span); 0 for an exponent that is 0 everywhere.
        base, scaling: of the frequencies.
        times: how often the scaling is applied.
        series: what else happens to the frequencies, a key of ``SERIES``.
        ladder: the layer type whose frequencies are used, a key of ``ladders``; empty for its own.
        factor: what cos and sin are multiplied by.
        sign: −1 rotates backwards.
        products: what becomes of a pair in place of a rotation, a key of ``PRODUCTS``; empty for a rotation.
        moved: whether a rotated pair is written where the other pairing has it: neighbours come out as halves, or
            halves as neighbours.
        axes: the axis of every pair.
        counted: what a position is: ``positions``, or ``rows`` or ``heads``, the numbers of an axis of x.
        shift, multiple: what is added to a position, and what that is multiplied by; 0 rotates nothing.
        last, period: where positions are clamped, and after how many they start again; 0 for never.
        precision: what is rounded to 16 bits: ``angles in bfloat16``, or frequencies, positions, products
            (all three) or arithmetic (cos and sin as well); empty for nothing.
        ladders: the frequencies of the model's other layer types, by name and base.
        lengths: those that the model's config states.
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
    times: int = 1
    ladder: str = ""
    series: str = ""
    products: str = ""
    moved: bool = False
    counted: str = "positions"
    shift: int = 0
    multiple: float = 1.0
    last: int = 0
    period: int = 0
    precision: str = ""
    ladders: Mapping[str, tuple[float, ...]] = field(default_factory=dict, compare=False, hash=False, repr=False)
    lengths: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @property
    def channels(self) -> tuple[Array, Array]:
        """The first and the second channel of every pair."""
        i = np.arange(self.turning)
        halves = self.pairing == "half"
        first = self.start + (i if halves else 2 * i)
        second = first + (self.distance if halves else 1)
        if self.turning and second[-1] >= self.head_dim:
            raise InvalidArgument(f"channel {second[-1]} of {self.head_dim}")
        return first, second

    @property
    def written(self) -> "Rotation":
        """This, by the channels to which it writes a rotated pair."""
        other = "interleaved" if self.pairing == "half" else "half"
        return replace(self, pairing=other, distance=self.turning) if self.moved else self

    @property
    def theta(self) -> Array:
        """The inverse frequency of every pair that rotates."""
        if self.ladder:
            theta = np.array(self.ladders[self.ladder])[: self.turning]
        else:
            theta = self.ladder_of(self.scaling if self.times else Default())
            if self.times == 2:
                theta = _again(theta, self.scaling, self.ladder_of(Default()))
            theta = SERIES[self.series][1](self, theta)
        return np.pad(theta, (0, self.turning - len(theta)))

    def ladder_of(self, scaling: Scaling) -> Array:
        """Frequencies under a scaling; an exponent over fewer channels than rotate runs on below 1/base."""
        if not self.span:
            return np.ones(self.turning)
        channels = max(self.span, 2 * self.turning)
        return _frequencies(scaling, channels, self.base ** (channels / self.span))[: self.turning]

    def rounded(self, values: Array, *names: str) -> Array:
        """To 16 bits, if ``precision`` is of one of these."""
        what, _, low = self.precision.partition(" in ")
        return rounded(values, low) if what in names else values

    def angles(self, seen: Mapping[str, Array]) -> Array:
        """What every row turns every pair by, ``(N, P)``."""
        where = np.atleast_2d(seen[self.counted] + self.shift) * self.multiple
        where = np.minimum(where, self.last or np.inf)
        where = where % self.period if self.period else where
        theta = self.rounded(self.theta, "frequencies", "products", "arithmetic")
        where = self.rounded(where, "positions", "products", "arithmetic")
        axes = np.zeros(self.turning, int)
        if len(where) > 1:
            axes[: len(self.axes)] = self.axes[: self.turning]
        if self.precision.startswith(
            ("angles", "products", "arithmetic")
        ):  # of a product in float32, as ports have it
            where, theta = where.astype(np.float32), theta.astype(np.float32)
        return self.rounded(where[axes].T * theta, "angles", "products", "arithmetic")

    @property
    def in_words(self) -> str:
        """Its channels, for a sentence."""
        s = f"{self.start} + " if self.start else ""
        return f"({s}i, {s}i+{self.distance})" if self.pairing == "half" else f"({s}2i, {s}2i+1)"


@lru_cache(maxsize=4096)
def _frequencies(scaling: Scaling, span: int, base: float) -> Array:
    return np.array([float(theta) for theta in scaling.frequencies(span, base).exact])


def _again(theta: Array, scaling: Scaling, plain: Array) -> Array:
    """Scaled frequencies scaled once more: by their own turns if the scaling goes by turns, else by its ratios."""
    if not isinstance(scaling, Llama3):
        return theta * theta / plain
    turns = scaling.original_length * theta / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = np.clip((turns - low) / (high - low or 1e-9), 0, 1)
    return keep * theta + (1 - keep) * theta / scaling.factor
