"""What ports of ALiBi's bias, of sinusoidal codes and of T5's buckets can get wrong, each as a description."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from posenc.encodings.alibi import slopes
from posenc.encodings.t5 import first_distances
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.search import BASES, CLOSE, LOW, Array, Change, Subject, each, measured, rounded

SERIES = {
    "paper": "the paper's slopes",
    "geometric": "2^(−8i/h), one series, which the paper has where the number of heads is a power of two",
    "halving": "1/2, 1/4, 1/8 …, whatever the number of heads",
}


@dataclass(frozen=True)
class Slopes:
    """ALiBi as somebody computes it.

    Args:
        heads: number of heads h.
        series: a key of ``SERIES``.
        ahead: by how many heads the series is shifted: 1 begins it at 1.
        maximum: the exponent of the last head, 8 in the paper.
        factor: what the bias is multiplied by.
        sign: −1 rewards distance.
        backwards: whether the last head has the first slope.
        given: the model's own slopes, where it states them; the series of the paper is not asked then.
    """

    heads: int
    series: str = "paper"
    ahead: int = 0
    maximum: float = 8.0
    factor: float = 1.0
    sign: int = 1
    backwards: bool = False
    given: tuple[float, ...] = ()

    def slopes(self, heads: int) -> Array:
        i = np.arange(1.0, heads + 1) - self.ahead
        paper = np.array(self.given or slopes(heads)) * 2 ** (8 * self.ahead / heads)
        m = {
            "paper": paper ** (self.maximum / 8),
            "geometric": 2 ** (-self.maximum * i / heads),
            "halving": 2**-i,
        }[self.series]
        return self.factor * (m[::-1] if self.backwards else m)


class SlopesPort(Subject[Slopes]):
    """ALiBi by its ``slopes (H,)`` or its ``bias (H, T, T)`` of tokens 0 … T − 1.

    A bias is compared where a query sees a key, j ≤ i, and up to a constant a row, which softmax removes.
    """

    MEASURED = ("factor",)
    WANTED = "Give the slopes of all heads."
    PHRASES: ClassVar = {
        "series": lambda port, right: f"its slopes are {SERIES[port.series]}",
        "ahead": lambda port, right: (
            "its slopes are off by one head: they begin at 1"
            if port.ahead > 0
            else "its slopes are off by one head: they begin at the second"
        ),
        "maximum": lambda port, right: f"its last exponent is {port.maximum:g} instead of {right.maximum:g}",
        "factor": lambda port, right: f"its bias is multiplied by {port.factor / right.factor:.6g}",
        "sign": lambda port, right: "its sign is wrong: far keys gain",
        "backwards": lambda port, right: "its heads are in the reverse order",
    }

    @classmethod
    def of(cls, recipe: Recipe, seen: Mapping[str, Array], free: Collection[str]) -> Self:
        heads, given = len(next(iter(seen.values()))), tuple(recipe.get("slopes") or ())
        if given and len(given) != heads:
            raise InvalidArgument(f"there are {heads} heads, and the model has {len(given)}; give all of them")
        return cls(Slopes(heads, maximum=float(recipe.get("max_exponent") or 8.0), given=given), seen)

    def predict(self, port: Slopes, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        for name, theirs in seen.items():
            ours = port.sign * port.slopes(len(theirs))
            if name == "bias":
                offsets = np.arange(float(theirs.shape[2]))[None] - np.arange(theirs.shape[1])[:, None]
                ours = np.where(offsets <= 0, ours[:, None, None] * offsets, 0.0)
                own = theirs.diagonal(0, 1, 2)[..., None]
                theirs = np.where(offsets <= 0, theirs - own, 0.0)
            yield theirs, ours, (CLOSE + self.steps.get(name, 0.0)) * np.abs(ours) + 1e-12

    def probe(self) -> Mapping[str, Array]:
        return {"slopes": np.zeros(self.right.heads)}

    def changes(self) -> list[Change]:
        right = self.right
        factors = [d**0.5 for d in (32, 64, 80, 96, 128)]
        for name, theirs in self.seen.items():
            first = theirs[0] if name == "slopes" else theirs[0, 0, 0] - theirs[0, 1, 0]
            ratio = abs(float(first)) / float(right.slopes(right.heads)[0])
            factors += [float(f"{ratio:.{n}g}") for n in (2, 4, 8) if math.isfinite(ratio) and ratio]
        return each(
            ahead=(1, -1),
            maximum=(4.0, 8.0, 16.0),
            sign=[-1],
            backwards=[True],
            factor=[right.factor * n for n in factors],
            series=SERIES,
        )


@dataclass(frozen=True)
class Codes:
    """Sinusoidal codes as somebody computes them: sin and cos of p·base^(−2i/span).

    Args:
        width: number of channels.
        span, base: of the frequencies.
        growing: whether the minus of the exponent is missing.
        per_channel: whether every channel has a frequency of its own, where two share one.
        order: ``"interleaved"``, a cosine behind each sine, or ``"block"``, all sines first.
        cos_first: whether sine and cosine change places.
        first: the position of the first row.
        factor: what codes are multiplied by.
        log10: whether the logarithm is to base 10 where exp is taken.
        precision: what is rounded to 16 bits.
        swapped: whether the arguments are the other way round.
    """

    width: int
    span: int
    base: float = 1e4
    growing: bool = False
    per_channel: bool = False
    order: str = "interleaved"
    cos_first: bool = False
    first: int = 0
    factor: float = 1.0
    log10: bool = False
    precision: str = ""
    swapped: bool = False


class CodesPort(Subject[Codes]):
    """Sinusoidal codes by their ``table (T, D)`` of positions 0 … T − 1."""

    MEASURED = ("base", "factor")
    WANTED = "Give more positions and all channels."
    PHRASES: ClassVar = {
        "span": lambda port, right: f"its exponent is 2i/{port.span}, where the paper has 2i/{right.span}",
        "base": lambda port, right: f"its base is {port.base:.10g} instead of {right.base:.10g}",
        "growing": lambda port, right: "the minus of its exponent is missing: frequencies grow",
        "per_channel": lambda port, right: "every channel has a frequency of its own, where two share one",
        "order": lambda port, right: (
            "all sines stand before all cosines, in blocks"
            if port.order == "block"
            else "a cosine stands behind each sine, interleaved"
        ),
        "cos_first": lambda port, right: "sine and cosine change places",
        "first": lambda port, right: f"it counts from position {port.first}",
        "factor": lambda port, right: f"its codes are multiplied by {port.factor:.6g}",
        "log10": lambda port, right: "its logarithm is to base 10, where exp needs the natural one",
        "precision": lambda port, right: f"its {port.precision.replace(' in ', ' are rounded to ')}",
        "swapped": lambda port, right: "its arguments are the other way round: length and width",
    }

    @classmethod
    def of(cls, recipe: Recipe, seen: Mapping[str, Array], free: Collection[str]) -> Self:
        width, factor = seen["table"].shape[1], float(recipe.get("scale") or 1.0)
        return cls(Codes(width, width, recipe.get("base"), order=recipe.get("order"), factor=factor), seen, free)

    def predict(self, port: Codes, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        theirs = seen["table"].T if port.swapped else seen["table"]
        width = theirs.shape[1]
        if width % 2:
            raise InvalidArgument(f"an odd number of channels, {width}")
        c = np.arange(width)
        pair, second = (c % (width // 2), c >= width // 2) if port.order == "block" else (c // 2, c % 2 == 1)
        exponent = (c if port.per_channel else 2 * pair) / (port.span * width / self.right.width)
        logarithm = math.log10(port.base) if port.log10 else math.log(port.base)
        at = port.first + np.arange(float(len(theirs)))[:, None]
        angles = at * np.exp((1 if port.growing else -1) * exponent * logarithm)
        room = port.factor * (CLOSE * (1 + np.abs(angles)) + self.steps.get("table", 0.0))
        angles = rounded(angles, port.precision.rpartition(" ")[2]) if port.precision else angles
        yield theirs, port.factor * np.where(second != port.cos_first, np.cos(angles), np.sin(angles)), room

    def probe(self) -> Mapping[str, Array]:
        return {"table": np.zeros((40, self.right.width))}

    def changes(self) -> list[Change]:
        D, flags = self.right.width, ("growing", "per_channel", "cos_first", "log10", "swapped")
        return each(
            span=[n for n in (2 * D, D // 2, D - 2, D - 1, D + 1) if n > 0],
            order=("block", "interleaved"),
            **{name: [True] for name in flags},
            first=(1, -1),
            base=[*BASES, 100.0, 1000.0, *self._measured()],
            factor=(D**0.5, D**-0.5),
            precision=[f"angles in {low}" for low in LOW],
        )

    def _measured(self) -> Iterator[float]:
        """The base of the second pair, as row 1 has it in either layout."""
        half = self.right.width // 2
        for row in self.seen["table"][1:2, :] if half > 1 else ():
            for sin, cos in ((row[2], row[3]), (row[1], row[half + 1])):
                yield from measured(abs(np.arctan2(sin, cos)) ** -half, 1, 2, 3, 4)


@dataclass(frozen=True)
class Buckets:
    """T5's buckets as somebody computes them.

    Args:
        buckets, max_distance: as in ``posenc.T5``.
        two_sided: whether keys ahead have buckets of their own.
        sign: −1 where offsets are taken as i − j.
        first: the number of the first bucket.
    """

    buckets: int = 32
    max_distance: int = 128
    two_sided: bool = False
    sign: int = 1
    first: int = 0


class BucketsPort(Subject[Buckets]):
    """T5's ``buckets (N,)`` of ``offsets (N,)``, key minus query."""

    WANTED = "Give offsets on both sides, past the last bucket."
    PHRASES: ClassVar = {
        "buckets": lambda port, right: f"it has {port.buckets} buckets instead of {right.buckets}",
        "max_distance": lambda port, right: (
            f"its last bucket begins at {port.max_distance} instead of {right.max_distance}"
        ),
        "two_sided": lambda port, right: (
            "it is two-sided: keys ahead have buckets of their own"
            if port.two_sided
            else "it is one-sided, as in decoders: keys ahead have no buckets of their own"
        ),
        "sign": lambda port, right: "the sign of its offsets is wrong: it takes i − j for j − i",
        "first": lambda port, right: f"its buckets are counted from {port.first}",
    }

    @classmethod
    def of(cls, recipe: Recipe, seen: Mapping[str, Array], free: Collection[str]) -> Self:
        if set(seen) != {"offsets", "buckets"}:
            raise InvalidArgument(
                "give offsets and buckets both: key minus query, and the bucket that it falls into"
            )
        stated = {name: recipe.get(name) for name in ("buckets", "max_distance", "two_sided")}
        return cls(Buckets(**{name: value for name, value in stated.items() if value is not None}), seen, free)

    def predict(self, port: Buckets, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        offsets = port.sign * seen["offsets"]
        side = port.buckets // 2 if port.two_sided else port.buckets
        if side < 4:
            raise InvalidArgument(f"buckets={port.buckets}")
        firsts = np.array(first_distances(side, port.max_distance))
        far = np.searchsorted(firsts, np.abs(offsets), side="right") - 1
        ahead = far + side if port.two_sided else 0 * far
        ours = port.first + np.where(offsets > 0, ahead, far)
        yield seen["buckets"], ours, np.full(ours.shape, 0.5)

    def probe(self) -> Mapping[str, Array]:
        return {"offsets": np.arange(-2000.0, 2000.0), "buckets": np.zeros(4000)}

    def changes(self) -> list[Change]:
        return each(
            buckets=(16, 32, 64, 128, 320),
            max_distance=(32, 64, 128, 256, 800),
            two_sided=[not self.right.two_sided],
            sign=[-1],
            first=[1],
        )
