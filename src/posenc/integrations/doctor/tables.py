"""What ports of ALiBi's bias, of sinusoidal codes and of T5's buckets can get wrong, each as a description."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch

from posenc.encodings.alibi import slopes
from posenc.encodings.t5 import T5
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.rotation import Rotation
from posenc.integrations.doctor.rotation_port import RotationPort, vectors
from posenc.integrations.doctor.search import CLOSE, Array, Change, Expected, Subject, each, step
from posenc.scaling import Default

SERIES: Mapping[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "": ("the model's slopes", lambda m, i: m),
    "geometric": (
        "its slopes are 2^(−8i/h), one series, which the paper has where the number of heads is a power of two",
        lambda m, i: 2 ** (-8 * i / len(i)),
    ),
    "halving": ("its slopes are 1/2, 1/4, 1/8 …, whatever the number of heads", lambda m, i: 2**-i),
    "backwards": ("its heads are in the reverse order", lambda m, i: m[::-1]),
    "flatter": ("its last exponent is 4 instead of 8", lambda m, i: m**0.5),
    "steeper": ("its last exponent is 16 instead of 8", lambda m, i: m**2),
}
"""What a port can do to the slopes m of heads i = 1 … h: in words, and as a function of them."""


@dataclass(frozen=True)
class Slopes:
    """ALiBi as somebody computes it.

    Args:
        slopes: the model's.
        series: what else is computed, a key of ``SERIES``.
        ahead: by how many heads the series is shifted: 1 begins it at 1.
        factor: what the bias is multiplied by.
        sign: −1 rewards distance.
    """

    slopes: tuple[float, ...]
    series: str = ""
    ahead: int = 0
    factor: float = 1.0
    sign: int = 1


class SlopesPort(Subject[Slopes]):
    """ALiBi by its ``slopes (H,)`` or its ``bias (H, T, T)`` of tokens 0 … T − 1.

    ``seen`` has the slopes that single numbers of them have, ``(H, N)``: a bias where a query sees a key before it,
    up to a constant a row, which softmax removes; and ``step``, the error of 16-bit arithmetic.
    """

    ARRAYS: ClassVar = (("bias",), ("slopes",))
    MEASURED = ("factor",)
    WANTED = "Give the slopes of all heads."
    PHRASES: ClassVar = {
        "series": lambda port, right: SERIES[port.series][0],
        "ahead": lambda port, right: (
            f"its slopes are off by one head: they begin at {'1' if port.ahead > 0 else 'the second'}"
        ),
        "factor": lambda port, right: f"its bias is multiplied by {port.factor:.6g}",
        "sign": lambda port, right: "its sign is wrong: far keys gain",
    }

    @classmethod
    def of(cls, expected: Expected, numbers: Mapping[str, Array], note: str = "") -> Self:
        heads = len(next(iter(numbers.values())))
        own = expected.recipe.get("slopes") or slopes(heads, expected.recipe.get("max_exponent"))
        if len(own) != heads:
            raise InvalidArgument(f"there are {heads} heads, and the model has {len(own)}; give all of them")
        given = np.concatenate([values.reshape(heads, -1) for values in numbers.values()], 1)
        single = np.concatenate([_single(values) for values in numbers.values()], 1)
        return cls(Slopes(tuple(own)), {"slopes": single, "step": step(given)}, expected, note)

    def predict(self, port: Slopes, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        i, theirs = np.arange(1.0, len(port.slopes) + 1), seen["slopes"]
        m = SERIES[port.series][1](np.array(port.slopes), i)
        ours = (port.sign * port.factor * 2 ** (8 * port.ahead / len(i)) * m)[:, None]
        yield theirs, ours + np.zeros(theirs.shape), (CLOSE + seen["step"]) * np.abs(ours) + 1e-12

    def changes(self) -> list[Change]:
        measured = abs(self.seen["slopes"][0, -1]) / self.right.slopes[0]
        factors = [d**0.5 for d in (32, 64, 80, 96, 128)] + [float(f"{measured:.{n}g}") for n in (2, 4, 8)]
        return each(ahead=(1, -1), sign=[-1], factor=factors, series=SERIES)


def _single(values: Array) -> Array:
    """The slopes that single numbers have, ``(H, N)``, of slopes or of a bias."""
    if values.ndim == 1:
        return values[:, None]
    i, j = np.tril_indices(values.shape[1], -1)
    if not len(i):
        raise InvalidArgument(f"bias has shape {values.shape}; give two tokens or more")
    return (values[:, i, j] - values[:, i, i]) / (j - i)


class CodesPort(RotationPort):
    """Sinusoidal codes by their ``table (T, D)`` of positions 0 … T − 1: what becomes of (0, 1) in every pair if it
    rotates backwards, (sin, cos)."""

    ARRAYS: ClassVar = (("table",),)
    FREE: ClassVar = {"order": "moved"}
    WANTED = "Give more positions and all channels."
    PHRASES: ClassVar = {
        "span": lambda port, right: f"its exponent is 2i/{port.span}, where the paper has 2i/{right.span}",
        "base": RotationPort.PHRASES["base"],
        "series": RotationPort.PHRASES["series"],
        "per_channel": lambda port, right: "every channel has a frequency of its own, where two share one",
        "moved": lambda port, right: (
            "all sines stand before all cosines, in blocks"
            if port.written.pairing == "half"
            else "a cosine stands behind each sine, interleaved"
        ),
        "products": lambda port, right: "sine and cosine change places",
        "shift": lambda port, right: f"it counts from position {port.shift}",
        "factor": lambda port, right: f"its codes are multiplied by {port.factor:.6g}",
        "precision": RotationPort.PHRASES["precision"],
    }

    @classmethod
    def of(cls, expected: Expected, numbers: Mapping[str, Array], note: str = "") -> Self:
        table, recipe = numbers["table"], expected.recipe
        width = table.shape[1]
        right = Rotation(
            head_dim=width,
            pairing="half" if recipe.get("order") == "block" else "interleaved",
            distance=width // 2,
            turning=width // 2,
            span=width - 2 * (recipe.get("spacing") == "tensor2tensor"),
            base=recipe.get("base"),
            scaling=Default(),
            factor=float(recipe.get("scale")),
            sign=-1,
            axes=(0,) * (width // 2),
        )
        x = np.zeros(table.shape)
        x[:, right.channels[1]] = 1
        rows = vectors({"positions": np.arange(float(len(table))), "x": x, "rotated": table}, right)
        return cls(right, rows, expected, note)


@dataclass(frozen=True)
class Buckets:
    """T5's buckets as somebody computes them.

    Args:
        buckets, max_distance: as in ``posenc.T5``.
        two_sided: whether keys ahead have buckets of their own.
        sign: −1 where offsets are taken as i − j.
        first: the number of the first bucket.
    """

    buckets: int
    max_distance: int
    two_sided: bool
    sign: int = 1
    first: int = 0


class BucketsPort(Subject[Buckets]):
    """T5's ``buckets (N,)`` of ``offsets (N,)``, key minus query."""

    ARRAYS: ClassVar = (("offsets", "buckets"),)
    FREE: ClassVar = {"two_sided": "two_sided"}
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
    def of(cls, expected: Expected, numbers: Mapping[str, Array], note: str = "") -> Self:
        stated = (expected.recipe.get(name) for name in ("buckets", "max_distance", "two_sided"))
        return cls(Buckets(*stated), numbers, expected, note)

    @property
    def probe(self) -> Mapping[str, Array]:
        return {"offsets": np.arange(-2000.0, 2000.0), "buckets": np.zeros(4000)}

    def predict(self, port: Buckets, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        own = T5(1, buckets=port.buckets, max_distance=port.max_distance, two_sided=port.two_sided)
        ours = port.first + own.bucket(torch.from_numpy(port.sign * seen["offsets"]).long()).numpy()
        yield seen["buckets"], ours, np.full(ours.shape, 0.5)

    def changes(self) -> Iterable[Change]:
        return each(
            buckets=(16, 32, 64, 128, 320),
            max_distance=(32, 64, 128, 256, 800),
            two_sided=[not self.right.two_sided],
            sign=[-1],
            first=[1],
        )
