"""A port of a rotation: its numbers beside those of a description, and the words of what differs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.mistakes import LOGARITHM_TO_BASE_10, mistakes
from posenc.integrations.doctor.rotation import PRODUCTS, SERIES, Rotation, fill
from posenc.integrations.doctor.search import CLOSE, Array, Change, Expected, Subject, step
from posenc.integrations.position_table import briefly
from posenc.integrations.words import axes_in_words
from posenc.scaling import Default, Scaling


class RotationPort(Subject[Rotation]):
    """A port of a rotation, by its frequencies, and by what it makes of vectors.

    ``seen`` has ``inv_freq (P,)``, or ``x`` and ``rotated (N, D)`` beside ``positions (N, A)``, ``rows`` and
    ``heads``, the numbers of both axes ``(N, 1)``, and ``step``, the error of 16-bit arithmetic; or both.
    """

    ARRAYS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("positions", "x", "rotated"),
        ("positions", "cos", "sin"),
        ("inv_freq",),
        ("positions", "inv_freq"),
    )
    FREE: ClassVar = {"base": "base", "pairing": "pairing"}
    MEASURED = ("base", "factor")
    WANTED = "Give positions 0, 1, 2 and some past the trained length, and all channels."
    PHRASES: ClassVar = {
        "turning": lambda port, right: (
            f"rotates {2 * port.turning} of {right.head_dim} channels instead of {2 * right.turning}"
        ),
        "pairing": lambda port, right: f"rotates channels {port.in_words} instead of {right.in_words}",
        "distance": lambda port, right: f"rotates channels {port.in_words} instead of {right.in_words}",
        "start": lambda port, right: (
            f"rotates the channels from {port.start} on, where the model rotates those from {right.start} on"
        ),
        "span": lambda port, right: f"its exponent is over {port.span} instead of {right.span}",
        "base": lambda port, right: (
            f"its base is {port.base:.10g} instead of {right.base:.10g}"
            + ", as a logarithm to base 10 makes it where exp needs the natural one"
            * (port.base == right.base**LOGARITHM_TO_BASE_10)
        ),
        "series": lambda port, right: SERIES[port.series][0].format(scaling=_named(right.scaling)),
        "ladder": lambda port, right: f"its frequencies are those of layer type {port.ladder[0]}",
        "scaling": lambda port, right: _scalings(port.scaling, right.scaling),
        "factor": lambda port, right: (
            f"its attention factor is {port.factor:.6g} instead of {right.factor:.6g}"
            + {1.0: " (left out)", right.factor**2: " (applied twice)"}.get(port.factor, "")
        ),
        "sign": lambda port, right: "rotates backwards: the sign of sin is wrong",
        "products": lambda port, right: PRODUCTS[port.products][0],
        "moved": lambda port, right: (
            f"writes a rotated pair to channels {port.written.in_words}: scores stay right if queries and keys "
            "both do"
        ),
        "axes": lambda port, right: (
            f"its pairs rotate by {axes_in_words(port.axes)}, where the model has {axes_in_words(right.axes)}"
        ),
        "counted": lambda port, right: (
            "counts rows 0, 1, 2 … and ignores the positions"
            if port.counted == "rows"
            else "heads and length are swapped: it counts along the axis of heads"
        ),
        "shift": lambda port, right: f"its positions are off by {port.shift:+d}",
        "multiple": lambda port, right: (
            "it does not rotate at all"
            if not port.multiple
            else f"its positions are multiplied by {port.multiple:g}"
            if port.multiple > 1
            else f"its positions are divided by {1 / port.multiple:g}"
        ),
        "last": lambda port, right: f"its positions are clamped at {port.last:,}, where its table ends",
        "period": lambda port, right: f"its positions start again every {port.period:,}",
        "precision": lambda port, right: (
            f"its {', '.join(port.precision[0])} are rounded to {port.precision[1]}, 16 bits"
        ),
    }

    @classmethod
    def of(cls, expected: Expected, numbers: Mapping[str, Array], note: str = "") -> Self:
        right = Rotation.of(expected.recipe, expected.recipe.get("head_dim") or _head_dim(numbers))
        return cls(right, vectors(numbers, right), expected, note)

    @property
    def sketch(self) -> Mapping[str, Array]:
        """Three rows: those of the smallest position but 0, of the largest and of the middle one."""
        at = self.seen.get("positions", np.zeros((1, 1)))[:, 0]
        turned = np.argsort(at, kind="stable")[np.count_nonzero(at == 0) :]
        rows = turned[[0, len(turned) // 2, -1]] if len(turned) else [0]
        return {name: values if name == "inv_freq" else values[rows] for name, values in self.seen.items()}

    @property
    def probe(self) -> Mapping[str, Array]:
        at, axes = np.array([0.0, 1, 2, 5, 40, 700, 5000, 70_000, 300_000]), max(self.right.axes, default=0) + 1
        x = np.random.default_rng(0).standard_normal((2, len(at), self.right.head_dim))
        where = at + 3 * np.arange(axes)[:, None] * (at > 2)
        return vectors({"positions": where, "x": x, "rotated": x}, self.right)

    def predict(self, port: Rotation, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        (first, second), (one, other) = port.channels, port.written.channels
        if "inv_freq" in seen:
            theirs = seen["inv_freq"]
            ours = fill(port.rounded(port.theta, "frequencies"), len(theirs))
            yield theirs, ours, (CLOSE + step(theirs)) * ours
        if "x" in seen:
            x, angles = seen["x"], port.angles(seen)
            cos = port.factor * port.rounded(
                np.cos(angles * port.base ** (-port.per_channel / port.span)), "cos and sin"
            )
            sin = port.factor * port.rounded(np.sin(angles), "cos and sin")
            ours, room = x.copy(), (CLOSE + seen["step"]) * np.abs(x)
            a, b = x[:, first], x[:, second]
            ours[:, one], ours[:, other] = PRODUCTS[port.products][1](a, b, cos, sin, port.sign)
            wide = (CLOSE * (2 + np.abs(angles)) + seen["step"]) * port.factor
            room[:, one] = room[:, other] = wide * (np.abs(a) + np.abs(b))
            yield seen["rotated"], ours, room

    def symptoms(self, off: Array, apart: Array) -> str:
        if off.ndim == 1:
            return super().symptoms(off, apart)
        position, rows, columns = self.seen["positions"][:, 0], off.any(1), np.flatnonzero(off.any(0))
        first, most = int(position[rows].min()), int(position[apart.max(1).argmax()])
        agreeing = int(max(position[~rows], default=0))
        if first == 0:
            means = "at position 0 nothing rotates, so look at the factor, the order of channels and the input"
        elif 1 < agreeing < first:
            means = f"all before agree, up to {agreeing:,}: a table that ends there, or 16-bit positions"
        elif len(columns) <= off.shape[1] // 2:
            means = f"columns {columns[0]} to {columns[-1]} alone: a scaling of some frequencies, or an axis"
        else:
            means = "in most columns: other frequencies, or other pairs of channels"
        return f"from position {first:,} on, by up to {apart.max():.3g} at position {most:,}; {means}"

    def changes(self) -> list[Change]:
        return mistakes(self.right, self.seen, self.expected)


def vectors(numbers: Mapping[str, Array], right: Rotation) -> dict[str, Array]:
    """The numbers with a row a token; a table of cos and sin is what becomes of (1, 0) in every pair."""
    result = {name: values for name, values in numbers.items() if name == "inv_freq"}
    given = [(numbers["x"], numbers["rotated"])] if "x" in numbers else []
    given += [_made_of_units(numbers["cos"], numbers["sin"], right)] if "cos" in numbers else []
    if not given:
        return result
    where, D = np.atleast_2d(numbers["positions"]), right.head_dim
    tokens = where.shape[1]
    for x, y in given:
        if x.shape != y.shape or x.shape[-2:] != (tokens, D):
            raise InvalidArgument(
                f"x has shape {x.shape} and rotated {y.shape}; both must be (…, {tokens}, {D}): heads, tokens, "
                "channels of a head"
            )
    if 1 < len(where) <= max(right.axes, default=0):
        raise InvalidArgument(f"positions have {len(where)} axes; give 1, or the model's {max(right.axes) + 1}")
    x, y = (np.concatenate([part.reshape(-1, D) for part in parts]) for parts in zip(*given, strict=True))
    copies, heads = np.arange(len(x) // tokens), given[0][0].shape[-3] if given[0][0].ndim > 2 else 1
    return result | {
        "positions": np.tile(where.T, (len(copies), 1)),
        "rows": np.tile(np.arange(float(tokens)), len(copies))[:, None],
        "heads": (copies % heads).repeat(tokens)[:, None].astype(float),
        "x": x,
        "rotated": y,
        "step": step(y),
    }


def _made_of_units(cos: Array, sin: Array, right: Rotation) -> tuple[Array, Array]:
    """(1, 0) in every pair that turns or is in a table of cos and sin, and what the table makes of it."""
    cos, sin = _by_pair(np.stack((cos, sin)))
    width = cos.shape[-1]
    first, second = replace(right, distance=max(width, right.pairs)).channels
    x = np.zeros((*cos.shape[:-1], right.head_dim))
    x[..., first[: max(width, right.turning)]] = 1
    y = x.copy()
    y[..., first[:width]], y[..., second[:width]] = cos, sin
    return x, y


def _by_pair(table: Array) -> Array:
    """A column a pair, of a table that may have every column twice, half a width apart or side by side."""
    half, every_other = table[..., : table.shape[-1] // 2], table[..., ::2]
    if np.array_equal(np.concatenate((half, half), -1), table):
        return half
    return every_other if np.array_equal(every_other.repeat(2, -1), table) else table


def _head_dim(numbers: Mapping[str, Array]) -> int:
    """Channels of a head, as the numbers themselves have it."""
    table = numbers.get("cos", numbers.get("inv_freq"))
    return int(numbers["x"].shape[-1] if table is None or "x" in numbers else 2 * _by_pair(table).shape[-1])


def _scalings(scaling: Scaling, right: Scaling) -> str:
    if scaling == Default():
        return f"leaves out the model's {_named(right)}"
    if type(scaling) is not type(right):
        return f"it computes {_named(scaling)} where the model has {_named(right)}"
    changed = [(name, value) for name, value in vars(right).items() if getattr(scaling, name) != value]
    return ", ".join(f"its {name} is {getattr(scaling, name)} instead of {value}" for name, value in changed)


def _named(scaling: Scaling) -> str:
    return "no scaling" if scaling == Default() else briefly(scaling).removesuffix("()")
