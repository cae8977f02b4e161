"""Axis maps: which coordinate every pair turns by, on which rung, in what unit; and rotation under them."""

from fractions import Fraction

import mpmath
import pytest
import torch
from torch import Tensor

import posenc
from posenc import Rotary
from posenc.encodings.axes import AxisMap, alternating, axial, chunked, dealt, first_last, strided
from posenc.encodings.catalogue import canonical
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument
from posenc.positions import arange

T, H, W = 0, 1, 2
MAPS = [
    chunked(2, 1, 1),
    strided(2, 1, 1),
    first_last(2, 1, 1),
    axial(2, 1, 1),
    alternating(2, 4),
    dealt(2, 4),
    axial(3, 1, order=(1, 0)),
]
IN_UNITS = [
    chunked(3, 1, units=("1/14", 2)),
    axial(2, 2, units=(Fraction(24, 72), "24/72")),
    axial(2, 2, order=(1, 0), units=("1/5", "1/7"), turns=True),
]


@pytest.mark.parametrize(
    ("made", "axes"),
    [
        (chunked(16, 24, 24), [T] * 16 + [H] * 24 + [W] * 24),
        (strided(24, 20, 20), [T, H, W] * 20 + [T] * 4),
        (strided(11, 11, 10), [T, H, W] * 10 + [T, H]),
        (axial(8, 28, 28), [T] * 8 + [H] * 28 + [W] * 28),
        (alternating(2, 4), [0, 1, 0, 1]),
        (first_last(20, 22, 22), [H, W] * 22 + [T] * 20),
        (dealt(2, 4), [0, 0, 1, 1]),
        (axial(2, 1, order=(1, 0)), [1, 1, 0]),
        (chunked(1, 2, 3, order=(2, 0, 1)), [W] + [T] * 2 + [H] * 3),
    ],
    ids=str,
)
def test_the_axis_of_every_pair(made: AxisMap, axes: list[int]) -> None:
    assert list(made.axis_of_pair) == axes


@pytest.mark.parametrize("phases", ["exact", "float32"])
@pytest.mark.parametrize("made", [chunked(2, 1, 1), strided(2, 1, 1)], ids=str)
def test_text_turns_as_without_axes(made: AxisMap, phases: str) -> None:
    """Where all coordinates are equal, one ladder over all pairs is plain RoPE, bit for bit."""
    at = torch.cat((arange(40), torch.tensor([10**6, 2**31 - 1])))
    with_axes = Rotary(8, pairing="half", axes=made, phases=phases)  # type: ignore[arg-type]
    without = Rotary(8, pairing="half", phases=phases)  # type: ignore[arg-type]
    torch.testing.assert_close(with_axes.tables(at.expand(3, -1)), without.tables(at), rtol=0, atol=0)


@pytest.mark.parametrize("made", MAPS, ids=str)
def test_every_coordinate_counts(made: AxisMap) -> None:
    """Swapping two axes, or moving along one, changes the scores."""
    A, rotary = made.axes, Rotary(8, pairing="half", axes=made)
    at = torch.stack([arange(6, offset=7 * axis) * (axis + 1) for axis in range(A)])
    q, k = torch.randn(2, 1, 2, 6, 8)

    def scores(positions: Tensor) -> Tensor:
        return posenc.scores(*rotary.at(positions).rotate(q, k), rotary.at(positions))

    for axis in range(A):
        other = at.clone()
        other[[axis, axis - 1]] = other[[axis - 1, axis]]
        assert (scores(other) - scores(at)).abs().max() > 1e-3
        # All tokens further along one axis: the same scores, since only offsets count; some 40 roundings of 2^-24.
        moved = at.clone()
        moved[axis] += 10**6
        torch.testing.assert_close(scores(moved), scores(at), rtol=0, atol=1e-5)


@pytest.mark.parametrize("coordinate", [1, 10**6 + 1, 2**31 - 1])
def test_fractions_are_exact_at_any_coordinate(coordinate: int) -> None:
    """Coordinates that count fourteenths: cos and sin to 4e-10, the rounding of the turns' last bit."""
    rotary = Rotary(8, pairing="half", axes=axial(2, 2, units=("1/14", "3/7")))
    cos, sin = rotary.tables(torch.tensor([[coordinate], [coordinate]]), torch.float64)
    with mpmath.workdps(50):
        for pair, (rung, unit) in enumerate([(0, (1, 14)), (1, (1, 14)), (0, (3, 7)), (1, (3, 7))]):
            angle = mpmath.mpf(coordinate) * unit[0] / unit[1] / mpmath.sqrt(10_000) ** rung
            assert abs(cos[0, pair].item() - float(mpmath.cos(angle))) <= 4e-10
            assert abs(sin[0, pair].item() - float(mpmath.sin(angle))) <= 4e-10


@pytest.mark.parametrize("coordinate", [0, 3, -7, 10**6 + 1])
def test_a_turn_is_a_turn(coordinate: int) -> None:
    """The fastest pair of coordinates that count sevenths of a turn is where it was, seven on, bit for bit."""
    rotary = Rotary(8, pairing="half", axes=axial(2, 2, units=("1/7", "1/14"), turns=True), signed=True)
    here, on = (rotary.tables(torch.tensor([[at], [2 * at]]), torch.float64) for at in (coordinate, coordinate + 7))
    fastest = ([table[:, [0, 2]] for table in tables] for tables in (here, on))
    # What is left of 2^64 after sevenths are rounded to whole units: 7/2 of them.
    torch.testing.assert_close(*fastest, rtol=0, atol=7 * 2 * 3.2 * 2**-64 + 2**-52)
    with mpmath.workdps(50):
        want = float(mpmath.cos(2 * mpmath.pi * mpmath.mpf(coordinate) / 700))
    assert here[0][0, [1, 3]].tolist() == pytest.approx([want] * 2, rel=0, abs=4e-10)


def test_coordinates_may_be_signed_where_it_is_said() -> None:
    """Around a centre: cos is even and sin odd, bit for bit, as far as positions go."""
    rotary = Rotary(8, pairing="half", axes=axial(2, 2), signed=True)
    at = torch.tensor([[1, 7, 2**31 - 1], [0, 3, 10**6]])
    (cos, sin), (other_cos, other_sin) = rotary.tables(at), rotary.tables(-at)
    assert torch.equal(cos, other_cos)
    assert torch.equal(sin, -other_sin)
    rotary.at(-at)


@pytest.mark.parametrize("made", [*MAPS, *IN_UNITS], ids=str)
def test_a_map_and_its_text_are_one(made: AxisMap) -> None:
    text = f"rotary(axes={made})"
    assert posenc.encoding(text, head_dim=8).axis_map == made
    again = str(canonical(parse(text)))
    assert str(canonical(parse(again))) == again
    assert str(made) in again


@pytest.mark.parametrize("made", ["chunked({n}, 1, 1)", "axial(2, {n})", "strided({n}, 1)", "dealt(2, {n})"])
def test_more_pairs_than_any_head_has_are_refused_before_they_are_counted(made: str) -> None:
    """A map has an entry for every pair, and a text may ask for more than there is time for."""
    with pytest.raises(InvalidArgument, match="pairs; it must have at most 65536"):
        posenc.encoding(f"rotary(axes={made.format(n=10**20)})", head_dim=16)
