"""Axis maps: which coordinate of a position each pair of channels turns by, as frozen values.

A position with A axes is a row of A integers (time, row, column). Pair i turns by its frequency times the
coordinate ``axis_of_pair[i]``, counted in that axis' unit. Kernels see a gather of A positions and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from posenc.errors import InvalidArgument
from posenc.schedules.schedule import Schedule, exact
from posenc.schedules.spectrum import Spectrum


@dataclass(frozen=True)
class AxisMap:
    """The axis of every pair, first to last.

    Args:
        axis_of_pair: from 0; every axis below the largest is used.
        rung_of_pair: which rung of its axis' ladder each pair takes; None gives pair i
            rung i of one ladder for all.
        pairs_of_axis: rungs of every axis' own ladder; None for one ladder over all pairs.
        units: what one step of a coordinate is worth, exactly; 1 where left out. It multiplies the frequencies, so
            that fractions of a picture stay exact integers: with 1/14 a coordinate counts fourteenths.
    """

    axis_of_pair: tuple[int, ...]
    rung_of_pair: tuple[int, ...] | None = None
    pairs_of_axis: tuple[int, ...] | None = None
    units: tuple[Fraction, ...] | None = None
    text: str = field(default="", compare=False)
    """How a text makes it."""

    def __post_init__(self) -> None:
        used = set(self.axis_of_pair)
        if not used or used != set(range(max(used) + 1)):
            raise InvalidArgument(f"axis_of_pair={self.axis_of_pair} must use every axis from 0 to the largest")
        if self.units is not None and (len(self.units) != self.axes or any(unit <= 0 for unit in self.units)):
            raise InvalidArgument(f"units={self.units} must be {self.axes} positive fractions, one per axis")

    def __str__(self) -> str:
        return self.text or f"AxisMap{self.axis_of_pair}"

    @property
    def axes(self) -> int:
        """A, the coordinates of a position."""
        return max(self.axis_of_pair) + 1

    @property
    def pairs(self) -> int:
        return len(self.axis_of_pair)


@exact
def spectrum(axes: AxisMap, schedule: Schedule, base: float) -> Spectrum:
    """The frequency of every pair under an axis map: its rung of its axis' ladder, in units of that axis."""
    sizes = axes.pairs_of_axis or (axes.pairs,) * axes.axes
    ladders = {size: schedule.spectrum(2 * size, base) for size in set(sizes)}
    rungs = axes.rung_of_pair or tuple(range(axes.pairs))
    units = axes.units or (Fraction(1),) * axes.axes
    pairs = [(ladders[sizes[axis]], rung, units[axis]) for axis, rung in zip(axes.axis_of_pair, rungs, strict=True)]
    return Spectrum(
        tuple(own.frequencies[rung] * unit.numerator / unit.denominator for own, rung, unit in pairs),
        tuple(own.float32[rung] * float(unit) for own, rung, unit in pairs),
        ladders[sizes[0]].attention_factor,
    )


def chunked(*sections: int) -> AxisMap:
    """One ladder over all pairs, cut into consecutive sections, one per axis (M-RoPE of Qwen2-VL: 16, 24, 24)."""
    _check_sections(sections)
    axis = tuple(axis for axis, count in enumerate(sections) for _ in range(count))
    return AxisMap(axis, text=f"chunked{sections}")


def strided(*sections: int) -> AxisMap:
    """One ladder dealt out in turn (M-RoPE of Qwen3-VL: 24, 20, 20): pair i goes to axis i mod A while i <
    A·section of that axis; what is left over stays with axis 0.
    """
    _check_sections(sections)
    A, pairs = len(sections), sum(sections)
    dealt = tuple(axis if (axis := i % A) and i < A * sections[axis] else 0 for i in range(pairs))
    if tuple(dealt.count(axis) for axis in range(A)) != sections:
        raise InvalidArgument(
            f"strided{sections} cannot be dealt out in turn; the first section must be the largest"
        )
    return AxisMap(dealt, text=f"strided{sections}")


def axial(*sections: int) -> AxisMap:
    """Consecutive sections, every axis with a ladder of its own over its section (Flux, Pixtral-like towers)."""
    _check_sections(sections)
    axis = tuple(axis for axis, count in enumerate(sections) for _ in range(count))
    return AxisMap(
        axis, tuple(rung for count in sections for rung in range(count)), sections, text=f"axial{sections}"
    )


def alternating(axes: int, pairs: int) -> AxisMap:
    """Axes take turns pair by pair, all on the same rung at a time: x1 y1 x.1 y.1 … (Kimi's vision tower)."""
    if axes < 1 or pairs < axes or pairs % axes:
        raise InvalidArgument(f"alternating({axes}, {pairs}) needs pairs to be a multiple of axes, both at least 1")
    rungs = tuple(i // axes for i in range(pairs))
    axis = tuple(i % axes for i in range(pairs))
    return AxisMap(axis, rungs, (pairs // axes,) * axes, text=f"alternating({axes}, {pairs})")


MAPS: dict[str, Callable[..., AxisMap]] = {
    "chunked": chunked,
    "strided": strided,
    "axial": axial,
    "alternating": alternating,
}
"""Every maker of an axis map, by the name that texts have for it."""


def _check_sections(sections: tuple[int, ...]) -> None:
    if len(sections) < 1 or any(type(count) is not int or count < 1 for count in sections):
        raise InvalidArgument(f"sections={sections} must be whole numbers of pairs, at least 1 for every axis")
