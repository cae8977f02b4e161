"""A rotation as a port computes it: a description whose every field is one of its decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.search import Array, rounded
from posenc.scaling import Default, Llama3, Scaling
from posenc.scaling.ramp import mix, turns_within

SERIES = {
    "growing": "the minus of its exponent is missing: frequencies grow with the pair",
    "backwards": "its frequencies are in the reverse order",
    "from one": "its exponent is off by one pair: the index begins at 1, so that no frequency is 1",
    "degrees": "its angles are in degrees: every frequency is multiplied by π/180",
    "blended backwards": "its ramp runs the wrong way: fast pairs are scaled and slow ones kept",
}
"""What a port can do to the frequencies of every pair at once, in words."""

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
        series: what else happens to the frequencies, a key of ``SERIES``; empty for nothing.
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
    start: int
    turning: int
    span: int
    base: float
    scaling: Scaling
    times: int
    ladder: str
    factor: float
    sign: int
    axes: tuple[int, ...]
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
        second = self.distance if self.pairing == "half" else 1
        first = self.start + (i if self.pairing == "half" else 2 * i)
        if self.turning and first[-1] + second >= self.head_dim:
            raise InvalidArgument(f"channel {first[-1] + second} of {self.head_dim}")
        return first, first + second

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
            theta = self._of(self.scaling if self.times else Default())
            if self.times == 2:
                theta = _again(theta, self.scaling, self._of(Default()))
            theta = self._changed(theta)
        return np.pad(theta, (0, self.turning - len(theta)))

    def _of(self, scaling: Scaling) -> Array:
        """Frequencies under a scaling; an exponent over fewer channels than rotate runs on below 1/base."""
        if not self.span:
            return np.ones(self.turning)
        wide = max(self.span, 2 * self.turning)
        return _frequencies(scaling, wide, self.base ** (wide / self.span))[: self.turning]

    def _changed(self, theta: Array) -> Array:
        """The frequencies after what ``series`` names."""
        if self.series == "growing":
            return 1 / theta
        if self.series == "backwards":
            return theta[::-1]
        if self.series == "from one":
            return theta * self.base ** (-2 / self.span if self.span else 0)
        if self.series == "degrees":
            return np.radians(theta)
        if self.series == "blended backwards":
            factor = getattr(self.scaling, "factor", 1.0)
            return self._of(Default()) * (1 + 1 / factor) - theta
        return theta

    def angles(self, seen: Mapping[str, Array]) -> Array:
        """What every row turns every pair by, ``(N, P)``."""
        what, _, low = self.precision.partition(" in ")
        where = seen[self.counted] if self.counted == "positions" else seen[self.counted][None]
        where = (where + self.shift) * self.multiple
        where = np.minimum(where, self.last) if self.last else where
        where = where % self.period if self.period else where
        theta = rounded(self.theta, low) if what in ("frequencies", "products", "arithmetic") else self.theta
        where = rounded(where, low) if what in ("positions", "products", "arithmetic") else where
        axes = np.zeros(self.turning, int)
        if len(where) > 1:
            axes[: len(self.axes)] = self.axes[: self.turning]
        if what in ("angles", "products", "arithmetic"):
            return rounded(where[axes].T.astype(np.float32) * theta.astype(np.float32), low)
        return where[axes].T * theta

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
    exact = [Decimal(value) for value in theta.tolist()]
    low, high = Decimal(scaling.low_freq_factor), Decimal(scaling.high_freq_factor)
    keep = [(turns_within(f, scaling.original_length) - low) / (high - low or Decimal("1e-9")) for f in exact]
    return np.array([float(f) for f in mix(exact, keep, Decimal(scaling.factor))])
