"""Descriptions of ports of ALiBi's bias, sinusoidal embeddings and T5's buckets, with their possible mistakes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from posenc.encodings.alibi import slopes
from posenc.encodings.t5 import T5
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.mistakes import mistakes
from posenc.integrations.doctor.plausible import plausible
from posenc.integrations.doctor.rotation import Rotation
from posenc.integrations.doctor.rotation_port import PHRASES, ROTARY, probe, vectors
from posenc.integrations.doctor.search import CLOSE, Array, Change, Expected, Kind, Rows, each, step
from posenc.scaling import Default

SERIES: Mapping[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "": ("the model's slopes", lambda m, i: m),
    "flatter": ("the exponents of its slopes are half of the model's", lambda m, i: m**0.5),
    "steeper": ("the exponents of its slopes are twice the model's", lambda m, i: m**2),
    "geometric": (
        "its slopes are the single series 2^(−8i/h), which is right only if the number of heads is a power of two",
        lambda m, i: 2 ** (-8 * i / len(i)),
    ),
    "halving": ("its slopes are 1/2, 1/4, 1/8 … for any number of heads", lambda m, i: 2**-i),
    "linear": ("its slopes are h/n for head h of n, without a power of two", lambda m, i: i / len(i)),
    "backwards": ("its heads are in the reverse order", lambda m, i: m[::-1]),
    "sorted": (
        "its slopes are sorted, but the model's heads beyond a power of two come last",
        lambda m, i: -np.sort(-m),
    ),
    "rolled": (
        "its heads beyond a power of two come first, but the model's come last",
        lambda m, i: np.roll(m, len(m) - 2 ** int(np.log2(len(m)))),
    ),
    "repeated": (
        "its heads beyond a power of two repeat the slopes of the first heads, as with [1::2] instead of [0::2]",
        lambda m, i: np.resize(m[: 2 ** int(np.log2(len(m)))], len(m)),
    ),
    "longer": (
        "its slopes are the first ones for the next power of two, 2^(−8i/2^⌈log2 h⌉)",
        lambda m, i: 2 ** (-8 * i / 2 ** np.ceil(np.log2(len(m)))),
    ),
}
"""Possible changes to the slopes m of heads i = 1 … h, each in words and as a function of m and i."""


@dataclass(frozen=True)
class Slopes:
    """ALiBi as a port computes it.

    Args:
        slopes: the model's slopes.
        series: how the slopes are changed, as a key of ``SERIES``.
        ahead: the number of heads by which the series is shifted; if it is 1, the series begins at slope 1.
        factor: the number by which the bias is multiplied.
        sign: −1 if far keys get larger scores.
    """

    slopes: tuple[float, ...]
    series: str = ""
    ahead: int = 0
    factor: float = 1.0
    sign: int = 1

    @classmethod
    def of(cls, expected: Expected, numbers: Mapping[str, Array]) -> "Slopes":
        """Return the model's slopes, for as many heads as the port has."""
        heads = len(next(iter(numbers.values())))
        own = expected.recipe.get("slopes") or slopes(heads, expected.recipe.get("max_exponent"))
        if len(own) != heads:
            raise InvalidArgument(f"the port has {heads} heads, but the model has {len(own)}; pass all heads")
        return cls(tuple(own))

    def bias(self, bias: Array) -> Rows:
        """Return a row for every head, with a slope for every pair of a query and an earlier key.

        The bias at a query's own position is subtracted first, because softmax ignores a constant per query.
        """
        T = bias.shape[-1]
        if T < 2 or bias.shape[1:] not in ((T, T), (1, T)):
            raise InvalidArgument(
                f"bias has shape {bias.shape}; pass shape (heads, tokens, tokens) with two tokens or more"
            )
        i, j = np.tril_indices(T, -1)
        bias = np.broadcast_to(bias, (len(bias), T, T))  # the bias of Bloom and MPT has one row for all queries
        before, itself = bias[:, i, j], bias[:, i, i]
        room = (step(bias.reshape(len(bias), -1)) + 2.0**-22) * (np.abs(before) + np.abs(itself)) / (i - j)
        return {"head": np.arange(len(bias))[:, None], "y": (before - itself) / (j - i), "room": room}

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        m = SERIES[self.series][1](np.array(self.slopes), np.arange(1.0, len(self.slopes) + 1))
        ours = (self.sign * self.factor * 2 ** (8 * self.ahead / len(m)) * m)[rows["head"]]
        return ours, CLOSE * np.abs(ours) + rows["room"] + 1e-12

    def mistakes(self, rows: Sequence[Rows], expected: Expected) -> list[Change]:
        """Return all single mistakes."""
        return each(
            ahead=(1, -1),
            factor=[
                *(d**0.5 for d in (32, 64, 80, 96, 128)),
                *(float(f"{abs(rows[0]['y'][0, -1]) / self.slopes[0]:.{n}g}") for n in (2, 4, 8)),
            ],
            series=SERIES,
            sign=[-1],
        )


ALIBI = Kind(
    right=Slopes.of,
    forms={
        ("bias",): Slopes.bias,
        ("slopes",): lambda right, m: right.bias(m[:, None, None] * [[0.0, 0], [-1, 0]]),
    },
    probe=lambda right: {"head": np.arange(len(right.slopes))[:, None], "room": np.zeros((1, 1))},
    mistakes=Slopes.mistakes,
    phrases={
        "series": lambda port, right: SERIES[port.series][0],
        "ahead": lambda port, right: (
            f"its slopes are off by one head: they begin at {'1' if port.ahead > 0 else 'the second'}"
        ),
        "factor": lambda port, right: f"its bias is multiplied by {port.factor:.6g}",
        "sign": lambda port, right: "its sign is wrong: far keys get larger scores",
    },
    wanted="Pass the slopes of all heads.",
)


def _codes(expected: Expected, numbers: Mapping[str, Array]) -> Rotation:
    """Describe sinusoidal embeddings as a rotation: (sin a, cos a) is the vector (0, 1), rotated by −a."""
    recipe, width = expected.recipe, numbers["table"].shape[1]
    return Rotation(
        head_dim=width,
        layout=(0, 1, width // 2) if recipe.get("order") == "block" else (0, 2, 1),
        turning=width // 2,
        span=width - 2 * (recipe.get("spacing") == "tensor2tensor"),
        base=recipe.get("base"),
        scaling=Default(),
        factor=float(recipe.get("scale")),
        sign=-1,
        axes=(0,) * (width // 2),
    )


def _table(right: Rotation, positions: Array, table: Array) -> Rows:
    """Return a row for every position of the table."""
    x = np.zeros(table.shape) + np.isin(np.arange(right.head_dim), right.both_channels[0][1])
    return vectors(right, positions, x, table)


SINUSOIDAL = Kind(
    right=_codes,
    forms={("positions", "table"): _table},
    probe=probe,
    mistakes=mistakes,
    phrases={
        **PHRASES,
        "span": lambda port, right: f"its exponent is 2i/{port.span} instead of 2i/{right.span}",
        "multiple": lambda port, right: (
            PHRASES["multiple"](port, right) if port.multiple else "every token has the row of position 0"
        ),
        "sign": lambda port, right: "the sign of its sines is wrong",
        "written": lambda port, right: (
            "sines and cosines are in two blocks" if port.written[1] == 1 else "sines and cosines are interleaved"
        ),
        "products": lambda port, right: (
            "sine and cosine are swapped" if port.products == "exchanged" else PHRASES["products"](port, right)
        ),
        "shift": lambda port, right: f"it counts from position {port.shift}",
        "factor": lambda port, right: f"its table is multiplied by {port.factor:.6g}",
    },
    wanted="Pass more positions and all channels.",
    plausible=plausible,
    free={"order": ROTARY.free["written"]},
)


def _logarithmic(n: Array, e: int, denominator: float) -> Array:
    """Return T5's buckets before rounding: distances below e have a bucket each, larger ones share e buckets."""
    return np.where(n < e, n, e + e * np.log(np.maximum(n, 1) / e) / np.log(denominator))


BUCKETS: Mapping[str, tuple[str, Callable[[Array, Array, int, int], Array]]] = {
    "": ("the model's buckets", lambda right, n, e, last: right),
    "unclamped": (
        "its last buckets are not clamped: larger distances have larger buckets",
        lambda right, n, e, last: np.where(n < last, right, _logarithmic(n, e, last / e)),
    ),
    "own position ahead": (
        "the query's own position is in the upper half of the buckets, as with >= instead of >",
        lambda right, n, e, last: right + 2 * e * (n == 0),
    ),
    "logarithm": (
        "its logarithm is divided by log(max_distance) instead of log(max_distance/max_exact)",
        lambda right, n, e, last: np.minimum(_logarithmic(n, e, last), 2 * e - 1),
    ),
    "rounded": (
        "its buckets are rounded to the nearest instead of down",
        lambda right, n, e, last: np.minimum(_logarithmic(n, e, last / e) + 0.5 * (n >= e), 2 * e - 1),
    ),
    "not halved": (
        "its number of buckets is not halved: keys before and after the query share some buckets",
        lambda right, n, e, last: np.minimum(_logarithmic(n, 2 * e, last / (2 * e)), 4 * e - 1),
    ),
}
"""Possible changes to T5's buckets, each in words and as a function of the right buckets of one side, the distances
n, the number e of distances that have a bucket each, and max_distance.
"""


@dataclass(frozen=True)
class Buckets:
    """T5's buckets as a port computes them.

    Args:
        buckets, max_distance: as in ``posenc.T5``.
        two_sided: whether keys after the query have buckets of their own.
        sign: −1 if the port's offsets are query position − key position.
        first: the index of the first bucket.
        shift: a number that is added to every offset.
        series: how the buckets are changed, as a key of ``BUCKETS``.
    """

    buckets: int
    max_distance: int
    two_sided: bool
    sign: int = 1
    first: int = 0
    shift: int = 0
    series: str = ""

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        at = torch.from_numpy(self.sign * rows["offset"] + self.shift).long()
        e, ahead = self.buckets // (2 + 2 * self.two_sided), self.two_sided * (at > 0).numpy()
        distance = at.abs() if self.two_sided else (-at).clamp(min=0)
        own = T5(1, buckets=self.buckets, max_distance=self.max_distance, two_sided=self.two_sided)
        right = own.bucket(at).numpy() - 2 * e * ahead
        side = BUCKETS[self.series][1](right, distance.numpy(), e, self.max_distance)
        return (
            self.first + 2 * e * ahead + np.floor(side),
            0.5
            + ((side != right) & (np.abs(side - np.rint(side)) < 1e-5)),  # a port's logarithm may be rounded down
        )


T5_BUCKETS = Kind(
    right=lambda expected, numbers: Buckets(*map(expected.recipe.get, ("buckets", "max_distance", "two_sided"))),
    forms={("offsets", "buckets"): lambda right, at, buckets: {"offset": at[:, None], "y": buckets[:, None]}},
    probe=lambda right: {"offset": np.arange(-2000.0, 2000)[:, None]},
    mistakes=lambda right, rows, expected: each(
        buckets=(16, 32, 64, 128, 320),
        max_distance=(32, 64, 128, 256, 800),
        two_sided=[not right.two_sided],
        sign=[-1],
        first=[1],
        shift=(1, -1),
        series=BUCKETS,
    ),
    phrases={
        "buckets": lambda port, right: f"it has {port.buckets} buckets instead of {right.buckets}",
        "max_distance": lambda port, right: (
            f"its max_distance is {port.max_distance} instead of {right.max_distance}"
        ),
        "two_sided": lambda port, right: (
            "it is two-sided: later keys have buckets of their own"
            if port.two_sided
            else "it is one-sided, as in decoders: later keys have no buckets of their own"
        ),
        "sign": lambda port, right: "the sign of its offsets is wrong: it uses i − j instead of j − i",
        "first": lambda port, right: f"its buckets are counted from {port.first}",
        "shift": lambda port, right: f"its offsets are off by {port.shift:+d}",
        "series": lambda port, right: BUCKETS[port.series][0],
    },
    wanted="Pass offsets on both sides, beyond the last bucket.",
    free={"two_sided": ("two_sided", lambda two_sided, right: True)},
)
