"""A port of a rotation: its numbers beside those of a description, and the words of what differs."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.mistakes import mistakes
from posenc.integrations.doctor.rotation import PRODUCTS, SERIES, Rotation
from posenc.integrations.doctor.search import CLOSE, Array, Change, Subject
from posenc.integrations.position_table import briefly
from posenc.scaling import Scaling


class RotationPort(Subject[Rotation]):
    """A port of a rotation, by what it returns.

    ``seen`` has ``positions (A, N)``, and one or more of ``inv_freq (P,)``, ``cos`` and ``sin (N, W)`` and
    ``rotated (N, D)`` beside ``x (N, D)``; ``rows`` and ``heads``, the numbers of both axes ``(N,)``.
    """

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
        "span": lambda port, right: (
            f"its exponent is over {port.span} instead of {right.span}"
            if port.span
            else "its exponent is 0 at every pair, as integer division makes it: all frequencies are 1"
        ),
        "base": lambda port, right: f"its base is {port.base:.10g} instead of {right.base:.10g}",
        "series": lambda port, right: SERIES[port.series][0],
        "ladder": lambda port, right: f"its frequencies are those of layer type {port.ladder}",
        "times": lambda port, right: (
            f"applies {_named(right.scaling)} twice"
            if port.times
            else f"leaves out the model's {_named(right.scaling)}"
        ),
        "scaling": lambda port, right: _scalings(port.scaling, right.scaling),
        "factor": lambda port, right: _factors(port.factor, right.factor),
        "sign": lambda port, right: "rotates backwards: the sign of sin is wrong",
        "products": lambda port, right: PRODUCTS[port.products],
        "moved": lambda port, right: (
            f"writes a rotated pair to channels {port.written.in_words}: scores stay right if queries and keys "
            "both do"
        ),
        "axes": lambda port, right: _axes(port.axes, right.axes),
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
        "precision": lambda port, right: _precision(*port.precision.split(" in ")),
    }

    @cached_property
    def sketch(self) -> dict[str, Array]:
        """Three rows: those of the smallest position but 0, of the largest and of the middle one."""
        if "positions" not in self.seen:
            return dict(self.seen)
        order = np.argsort(self.seen["positions"][0], kind="stable")
        turned = order[self.seen["positions"][0][order] > 0]
        rows = turned[[0, len(turned) // 2, -1]] if len(turned) else order[:1]
        by_column = {"positions"} & set(self.seen)
        return {
            name: values if name == "inv_freq" else values[:, rows] if name in by_column else values[rows]
            for name, values in self.seen.items()
        }

    def predict(self, port: Rotation, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        first, second = port.channels  # refused where a head has too few of them
        if "inv_freq" in seen:
            theta = port.rounded(port.theta, "frequencies")
            ours = np.pad(theta, (0, max(0, len(seen["inv_freq"]) - len(theta))))[: len(seen["inv_freq"])]
            yield seen["inv_freq"], ours, (CLOSE + self.steps.get("inv_freq", 0.0)) * ours
        if "positions" not in seen:
            return
        angles = port.angles(seen)
        cos = port.factor * port.rounded(np.cos(angles), "arithmetic")
        sin = port.sign * port.factor * port.rounded(np.sin(angles), "arithmetic")
        still = port.factor, 0.0  # of channels that do not rotate
        if port.products == "exchanged":
            if not port.multiple:
                raise InvalidArgument("a table of zeros, which was not filled")
            cos, sin, still = sin, cos, still[::-1]
        room = CLOSE * (1 + np.abs(angles)) * port.factor
        for name, table, rest in (("cos", cos, still[0]), ("sin", sin, still[1])):
            if name in seen:
                yield _table(seen[name], table, room + self.steps.get(name, 0.0) * port.factor, rest)
        if "rotated" in seen:
            x = seen["x"]
            ours, allowed = x.copy(), (CLOSE + self.steps.get("rotated", 0.0)) * np.abs(x)
            a, b = x[:, first], x[:, second]
            first, second = port.written.channels
            turned = -b * sin if port.products != "reflected" else b * sin
            ours[:, first], ours[:, second] = a * cos + turned, b * cos + a * sin
            both = np.abs(a) + np.abs(b)
            each = (room + CLOSE + self.steps.get("rotated", 0.0) * port.factor) * both
            allowed[:, first] = allowed[:, second] = each
            yield seen["rotated"], ours, allowed

    def probe(self) -> Mapping[str, Array]:
        axes, at = max(self.right.axes, default=0) + 1, np.array([0, 1, 2, 5, 40, 700, 5000, 70_000, 300_000] * 2)
        x = np.random.default_rng(0).standard_normal((len(at), self.right.head_dim))
        where = np.stack([at + 3.0 * axis * (at > 2) for axis in range(axes)])
        rows, heads = np.arange(len(at)) % (len(at) // 2), np.arange(len(at)) // (len(at) // 2)
        return {"positions": where, "x": x, "rotated": x, "rows": rows * 1.0, "heads": heads * 1.0}

    def symptoms(self, off: Array, apart: Array) -> str:
        if "positions" not in self.seen or len(off) != self.seen["positions"].shape[1]:
            return super().symptoms(off, apart)
        position, rows, columns = self.seen["positions"][0], off.any(1), np.flatnonzero(off.any(0))
        first, most = int(position[rows].min()), int(position[apart.max(1).argmax()])
        agreeing = sorted({int(p) for p in position[~rows]})
        where = f"from position {first:,} on, by up to {apart.max():.3g} at position {most:,}"
        if first == 0:
            means = "at position 0 nothing rotates, so look at the factor, the order of channels and the input"
        elif agreeing and agreeing[-1] > 1 and first > agreeing[-1]:
            means = f"all before agree, up to {agreeing[-1]:,}: a table that ends there, or 16-bit positions"
        elif len(columns) <= off.shape[1] // 2:
            means = f"columns {columns[0]} to {columns[-1]} alone: a scaling of some frequencies, or an axis"
        else:
            means = "in most columns: other frequencies, or other pairs of channels"
        return f"{where}; {means}"

    def changes(self) -> list[Change]:
        return mistakes(self.right, self.seen)


def _table(theirs: Array, table: Array, room: Array, still: float) -> tuple[Array, Array, Array]:
    """A table as wide as theirs: a column a pair, or both of a pair side by side or half a width apart."""
    width, pairs = theirs.shape[-1], table.shape[-1]
    more = max(0, (width if width < 2 * pairs else width // 2) - pairs)
    table = np.pad(table, ((0, 0), (0, more)), constant_values=still)
    room = np.pad(room, ((0, 0), (0, more)), constant_values=CLOSE)
    if table.shape == theirs.shape:
        return theirs, table, room
    layouts = [
        (np.concatenate((table, table), -1), np.concatenate((room, room), -1)),
        (table.repeat(2, -1), room.repeat(2, -1)),
    ]
    if layouts[0][0].shape != theirs.shape:
        raise InvalidArgument(f"a table of {width} columns for {pairs} pairs")
    ours, allowed = min(layouts, key=lambda pair: float(np.abs(pair[0] - theirs).sum()))
    return theirs, ours, allowed


def _axes(axes: tuple[int, ...], right: tuple[int, ...]) -> str:
    if len(set(axes)) == 1:
        return f"all its pairs rotate by axis {axes[0]}, the {('first', 'second', 'third', 'fourth')[axes[0]]} axis"
    return f"its axes are {_laid_out(axes)}, where the model has {_laid_out(right)}"


def _laid_out(axes: tuple[int, ...]) -> str:
    """The axes of the pairs in words."""
    runs = [axis for i, axis in enumerate(axes) if not i or axes[i - 1] != axis]
    order = tuple(dict.fromkeys(axes))
    how = "chunked" if len(runs) == len(set(axes)) else "interleaved"
    return f"sections {[axes.count(axis) for axis in order]} {how}" + f" in the order {order}" * (
        order != tuple(sorted(order))
    )


def _scalings(scaling: Scaling, right: Scaling) -> str:
    if type(scaling) is not type(right):
        return f"it computes {_named(scaling)} where the model has {_named(right)}"
    changed = [name for name, value in vars(right).items() if getattr(scaling, name) != value]
    return ", ".join(
        f"its {name} is {getattr(scaling, name)} instead of {getattr(right, name)}" for name in changed
    )


def _precision(what: str, low: str) -> str:
    all_of = {"products": "positions, frequencies and angles"}
    all_of["arithmetic"] = f"{all_of['products'].replace(' and', ',')}, cos and sin"
    return f"its {all_of.get(what, what)} are rounded to {low}, 16 bits"


def _named(scaling: Scaling) -> str:
    return briefly(scaling).removesuffix("()")


def _factors(factor: float, right: float) -> str:
    known = {1.0: "left out", right**2: "applied twice", right**0.5: "its square root"} if right != 1 else {}
    why = next((text for value, text in known.items() if math.isclose(value, factor, rel_tol=1e-6)), "")
    return f"its attention factor is {factor:.6g} instead of {right:.6g}" + (f" ({why})" if why else "")
