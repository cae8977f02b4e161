"""Axis maps are immutable objects that assign each pair of channels to one coordinate of the position.

With A axes, a position is a tuple of A integers, such as (time, row, column). Pair i rotates by its frequency
times the coordinate ``axis_of_pair[i]``, measured in that axis's unit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Integral

from posenc.errors import InvalidArgument
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import TWO_PI, Scaling, exact

Units = Sequence[Fraction | int | str] | None
Order = tuple[int, ...] | None


MOST_PAIRS = 2**16
"""The largest number of pairs in an axis map, which has one entry per pair of channels."""


@dataclass(frozen=True)
class AxisMap:
    """An axis map: the axis of every pair, from the first pair to the last.

    Args:
        axis_of_pair: the axis of each pair; axes are numbered from 0, and every axis up to the largest must have a
            pair.
        index_of_pair: the index of each pair's frequency in the list of its axis; None if pair i uses the i-th
            frequency.
        pairs_of_axis: the number of frequencies of each axis; None if all axes share one list.
        units: the size of one step of each coordinate, as an exact fraction (a whole number, a ``Fraction``, or a
            string such as "1/14"); 1 if omitted. Frequencies are multiplied by the unit, so that fractions of an
            image can be passed as exact integers: with the unit 1/14, coordinates count fourteenths.
        turns: whether coordinate · unit · frequency is an angle in full turns (2π radians) instead of radians.
    """

    axis_of_pair: tuple[int, ...]
    index_of_pair: tuple[int, ...] | None = None
    pairs_of_axis: tuple[int, ...] | None = None
    units: Units = None
    turns: bool = False
    made_by: tuple[str, tuple[int, ...], Order] | None = field(default=None, compare=False)
    """The name and arguments of the function that built the map, for ``repr``; None if no function of this file
    built it.
    """

    def __post_init__(self) -> None:
        used = set(self.axis_of_pair)
        if not used or used != set(range(len(used))) or not all(isinstance(axis, Integral) for axis in used):
            raise InvalidArgument(f"axis_of_pair={self.axis_of_pair} must contain every axis from 0 to the largest")
        object.__setattr__(self, "units", _fractions(self.units))
        if self.units is not None and (
            len(self.units) != self.axes or any(Fraction(unit) <= 0 for unit in self.units)
        ):
            raise InvalidArgument(f"units={self.units} must be {self.axes} positive fractions, one per axis")
        if self.pairs_of_axis is not None and len(self.pairs_of_axis) != self.axes:
            raise InvalidArgument(f"pairs_of_axis={self.pairs_of_axis} must be {self.axes} numbers, one per axis")
        sizes = [self.pairs] * self.axes if self.pairs_of_axis is None else self.pairs_of_axis
        indices = range(self.pairs) if self.index_of_pair is None else self.index_of_pair
        in_range = [0 <= index < sizes[axis] for axis, index in zip(self.axis_of_pair, indices, strict=False)]
        if len(indices) != self.pairs or not all(in_range):
            raise InvalidArgument(
                f"index_of_pair={self.index_of_pair} must be {self.pairs} numbers, each below the number of "
                f"frequencies of its axis; the axes have {tuple(sizes)} frequencies"
            )

    def __repr__(self) -> str:
        """Return the expression that builds this map, such as ``axial(4, 4, units=('1/14', '1/14'))``."""
        fields = self.axis_of_pair, self.index_of_pair, self.pairs_of_axis
        name, numbers, order = self.made_by or ("AxisMap", fields, None)
        units = f"units={tuple(str(unit) for unit in self.units)}" if self.units else ""
        given = (f"order={order}" if order else "", units, "turns=True" if self.turns else "")
        return f"{name}({', '.join([*map(str, numbers), *filter(None, given)])})"

    @property
    def axes(self) -> int:
        """A, the number of coordinates of a position."""
        return max(self.axis_of_pair) + 1

    @property
    def pairs(self) -> int:
        return len(self.axis_of_pair)


@exact
def axis_frequencies(axes: AxisMap, scaling: Scaling, base: float) -> Frequencies:
    """Return the frequencies of all pairs of an axis map, in radians per step of the pair's coordinate."""
    sizes = axes.pairs_of_axis or (axes.pairs,) * axes.axes
    by_size = {size: scaling.frequencies(2 * size, base) for size in set(sizes)}
    indices = axes.index_of_pair or tuple(range(axes.pairs))
    units = _fractions(axes.units) or (Fraction(1),) * axes.axes
    pairs = [
        (by_size[sizes[axis]], index, units[axis]) for axis, index in zip(axes.axis_of_pair, indices, strict=True)
    ]
    radians = TWO_PI if axes.turns else Decimal(1)
    return Frequencies(
        tuple(
            frequencies.exact[index] * unit.numerator / unit.denominator * radians
            for frequencies, index, unit in pairs
        ),
        tuple(frequencies.float32[index] * float(unit) * float(radians) for frequencies, index, unit in pairs),
        by_size[sizes[0]].attention_factor,
    )


def chunked(*sections: int, order: Order = None, units: Units = None, turns: bool = False) -> AxisMap:
    """Return a map that cuts one list of frequencies into one section per axis (Qwen2-VL's M-RoPE: 16, 24, 24).

    Here and in the functions below, ``order`` gives the axis of every section; the default is 0, 1, 2 …. If
    positions are (row, column), ``order=(1, 0)`` assigns the first section to columns. ``units`` and ``turns`` are
    described in ``AxisMap``.
    """
    _check_sections(sections)
    axis = tuple(axis for axis, count in enumerate(sections) for _ in range(count))
    return _map("chunked", sections, axis, None, None, order, units, turns)


def strided(*sections: int, order: Order = None, units: Units = None, turns: bool = False) -> AxisMap:
    """Return a map that assigns one list of frequencies to the axes round-robin (M-RoPE of Qwen3-VL: 24, 20, 20).
    Pair i belongs to axis a = i mod A if i < A·sections[a], and otherwise to axis 0.
    """
    _check_sections(sections)
    A, pairs = len(sections), sum(sections)
    dealt = tuple(axis if (axis := i % A) and i < A * sections[axis] else 0 for i in range(pairs))
    if tuple(dealt.count(axis) for axis in range(A)) != sections:
        raise InvalidArgument(
            f"strided{sections}: these sections cannot be interleaved; the first one must be the largest"
        )
    return _map("strided", sections, dealt, None, None, order, units, turns)


def first_last(*sections: int, order: Order = None, units: Units = None, turns: bool = False) -> AxisMap:
    """Return a map that assigns one list of frequencies to the axes as follows: fast pairs alternate between the
    later axes, and the slowest pairs belong to the first axis. With axes t, h, w, the order is h, w, h, w … t, t
    (ERNIE 4.5 VL: 20, 22, 22; VideoRoPE).
    """
    _check_sections(sections)
    first, *rest = sections
    if not rest or len(set(rest)) > 1:
        raise InvalidArgument(
            f"first_last{sections} must have a section for time and equal sections for the other axes"
        )
    axis = tuple(range(1, len(sections))) * rest[0] + (0,) * first
    return _map("first_last", sections, axis, None, None, order, units, turns)


def axial(*sections: int, order: Order = None, units: Units = None, turns: bool = False) -> AxisMap:
    """Return a map of consecutive sections, each with its own list of frequencies (Flux, Qwen-VL's vision
    towers).
    """
    _check_sections(sections)
    axis = tuple(axis for axis, count in enumerate(sections) for _ in range(count))
    indices = tuple(index for count in sections for index in range(count))
    return _map("axial", sections, axis, indices, sections, order, units, turns)


def alternating(axes: int, pairs: int, *, order: Order = None, units: Units = None, turns: bool = False) -> AxisMap:
    """Return a map in which axes alternate from pair to pair and every axis has each frequency once: x·θ_0, y·θ_0,
    x·θ_1, y·θ_1 … (Kimi's vision tower).
    """
    _check_shares("alternating", axes, pairs)
    indices = tuple(i // axes for i in range(pairs))
    axis = tuple(i % axes for i in range(pairs))
    return _map("alternating", (axes, pairs), axis, indices, (pairs // axes,) * axes, order, units, turns)


def dealt(axes: int, pairs: int, *, order: Order = None, units: Units = None, turns: bool = False) -> AxisMap:
    """Return a map that deals out one list of frequencies to the axes and lists pairs axis by axis: frequencies 0,
    A, 2A … for axis 0, then 1, A+1 … for axis 1 (Pixtral).
    """
    _check_shares("dealt", axes, pairs)
    axis = tuple(i // (pairs // axes) for i in range(pairs))
    indices = tuple(index for first in range(axes) for index in range(first, pairs, axes))
    return _map("dealt", (axes, pairs), axis, indices, None, order, units, turns)


MAPS: dict[str, Callable[..., AxisMap]] = {
    make.__name__: make for make in (chunked, strided, first_last, axial, alternating, dealt)
}
"""The functions that build axis maps, by their names in strings."""


def _map(
    name: str,
    numbers: tuple[int, ...],
    axis_of_pair: tuple[int, ...],
    indices: tuple[int, ...] | None,
    pairs_of_axis: tuple[int, ...] | None,
    order: Order,
    units: Units,
    turns: bool,
) -> AxisMap:
    """Return a map whose sections belong to the axes in ``order``. The map records the arguments that ``repr``
    shows.
    """
    if order is not None:
        if not isinstance(order, Sequence) or sorted(order) != sorted(set(axis_of_pair)):
            raise InvalidArgument(
                f"order={order} must contain every axis from 0 to {max(axis_of_pair)} exactly once"
            )
        axis_of_pair = tuple(order[section] for section in axis_of_pair)
        pairs_of_axis = pairs_of_axis and tuple(pairs_of_axis[order.index(axis)] for axis in range(len(order)))
        order = None if list(order) == sorted(order) else tuple(order)
    return AxisMap(axis_of_pair, indices, pairs_of_axis, units, turns, (name, numbers, order))


def _check_sections(sections: tuple[int, ...]) -> None:
    if len(sections) < 1 or any(type(count) is not int or count < 1 for count in sections):
        raise InvalidArgument(
            f"sections={sections} must be whole numbers of at least 1: the number of pairs of each axis"
        )
    _check_pairs(sum(sections))


def _check_pairs(pairs: int) -> None:
    if pairs > MOST_PAIRS:
        raise InvalidArgument(f"the map has {pairs} pairs; it must have at most {MOST_PAIRS}")


def _check_shares(name: str, axes: int, pairs: int) -> None:
    if type(axes) is not int or type(pairs) is not int or axes < 1 or pairs < axes or pairs % axes:
        raise InvalidArgument(
            f"{name}({axes}, {pairs}): the number of pairs must be a multiple of the number of axes, both "
            "whole numbers of at least 1"
        )
    _check_pairs(pairs)


def _fractions(units: Units) -> tuple[Fraction, ...] | None:
    try:
        # Fraction(x, 1) refuses floats; the float 0.1, for example, is not exactly 1/10.
        return (
            None if units is None else tuple(Fraction(x) if isinstance(x, str) else Fraction(x, 1) for x in units)
        )
    except (TypeError, ValueError, ZeroDivisionError):
        raise InvalidArgument(f"units={units} must be fractions, one per axis, such as ('1/14', '1/14')") from None
