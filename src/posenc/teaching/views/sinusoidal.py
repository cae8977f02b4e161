"""Views of the sinusoidal encoding: heatmap, clock hands, waves, and dot products by distance."""

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

import posenc
from posenc.arguments import such_that
from posenc.encodings.sinusoidal import Order
from posenc.pictures.numbers import plain, short
from posenc.pictures.view import Arrow, Axis, Grip, Heatmap, Line, Lines, Plane, View, counted, labelled
from posenc.teaching.views.bounds import Base, Bounds, Length, Position, Width, bounded, within

MAX_LENGTH, SQUARE = 4096, 64
"""The largest number of drawn positions, and the number of positions that are compared with each other."""


def table(
    width: int, positions: Sequence[int], base: float = 10_000.0, order: Order = "interleaved"
) -> Float[Tensor, "T C"]:
    """Return the sinusoidal encoding of these positions in float64, with one row per position."""
    such_that(
        lambda channels: channels % 2 == 0,
        f"be even, because every pair has a sine and a cosine; use width={width + 1}",
    )(width, "width")
    return posenc.Sinusoidal(width, base=base, order=order).table(torch.tensor(list(positions)), torch.float64)


@bounded
def heatmap(
    width: Width = 64,
    length: Length = 50,
    base: Base = 10_000.0,
    order: Order = "interleaved",
    transposed: bool = False,
    first: Annotated[int | None, Bounds(0, 4095, below="length")] = None,
    second: Annotated[int | None, Bounds(0, 4095, below="length")] = None,
) -> View:
    """Show every value of the sinusoidal encoding; if two positions are given, mark and compare these positions.

    Rows are dimensions and columns are positions; ``transposed`` swaps rows and columns.
    """
    values = table(width, range(length), base, order)
    chosen = tuple(p for p in (first, second) if p is not None)
    dims, positions = counted("dimension", width), counted("position", length)
    panel = (
        Heatmap("encoding", values, positions, dims, "signed", limit=1.0, marked_rows=chosen)
        if transposed
        else Heatmap("encoding", values.T, dims, positions, "signed", limit=1.0, marked_columns=chosen)
    )
    readouts: dict[str, float | str] = {}
    title = f"Each {'row' if transposed else 'column'} is the encoding of one position"
    if first is not None and second is not None:
        dot = float(values[first] @ values[second])
        readouts = {"dot product": dot, "cosine of the two encodings": dot / (width / 2)}
        title = f"Positions {first} and {second}: cosine {plain(dot / (width / 2), 2)}"
    return View(
        title,
        (panel,),
        readouts,
        "import torch, posenc\n"
        f"code = posenc.Sinusoidal({width}, base={base!r}, order={order!r}).table(torch.arange({length}))\n"
        f"print({f'code[{first}] @ code[{second}]' if readouts else 'code'})",
    )


@bounded
def hands(width: Annotated[int, Bounds(2, 16)] = 8, position: Position = 5, base: Base = 10_000.0) -> View:
    """Show the encoding of one position as a clock with width/2 hands; slower hands are shorter."""
    row = table(width, [position], base)[0].view(-1, 2)
    pairs, wavelengths = len(row), wavelength_by_pair(width, base)
    arrows = []
    first = max(0, position - 4)
    turn = range(first, min(first + 8, 2**31))  # of the fastest hand
    tips = zip(map(float, turn), table(width, turn, base)[:, [1, 0]].tolist(), strict=True)
    for i, (sin, cos) in enumerate(row.tolist()):
        length = 1 - 0.6 * i / pairs
        grip = Grip("position", float(position), tuple((p, *tip) for p, tip in tips)) if i == 0 else None
        arrows.append(
            Arrow(
                f"pair {i}: a turn in {short(float(f'{wavelengths[i]:.4g}'))} positions",
                length * cos,
                length * sin,
                grip=grip,
                text=f"sin {plain(sin, 3)}, cos {plain(cos, 3)}",
            )
        )
    return View(
        f"Together, {pairs} hands spell position {position}",
        (Plane("cosine to the right, sine upwards", tuple(arrows), 1.1),),
        {
            "turns of the fastest hand": position / wavelengths[0],
            "turns of the slowest hand": position / wavelengths[-1],
        },
        "import math, posenc\n"
        f"frequencies = posenc.scaling.Default().frequencies({width}, {base!r}).exact\n"
        f"print({position} * float(frequencies[0]) / (2 * math.pi))    # turns of the fastest hand\n"
        f"print({position} * float(frequencies[-1]) / (2 * math.pi))    # turns of the slowest hand",
    )


@bounded
def waves(
    width: Width = 512,
    dimensions: Annotated[tuple[int, ...], Bounds(0, 1023, below="width")] = (0, 100, 511),
    first: Annotated[int, Bounds(0, 1_000_000)] = 0,
    last: Annotated[int, Bounds(1, 1_004_096)] = 20,
    base: Base = 10_000.0,
) -> View:
    """Show single dimensions of the sinusoidal encoding as functions of position."""
    within("last", last, first + 1, first + MAX_LENGTH)
    within("dimensions", len(dimensions), 1, 8)
    between = SMOOTH if last - first <= FEW else 0
    places, values = _smooth(width, range(first, last + 1), base, between)
    lines = tuple(Line(f"dimension {dim}", values[:, dim]) for dim in dimensions)
    return View(
        "Each dimension is a wave; the last ones barely move",
        (Lines("waves", lines, Axis("position", places), "value", between=between),),
        {f"wavelength of dimension {dim}": wavelength_by_pair(width, base)[dim // 2] for dim in dimensions},
        "import torch, posenc\n"
        f"code = posenc.Sinusoidal({width}, base={base!r}).table(torch.arange({first}, {last + 1}))\n"
        f"print(code[:, {list(dimensions)}])",
    )


SMOOTH, FEW = 7, 130
"""The number of points drawn between two positions, and the largest number of positions with such points."""


def _smooth(width: int, positions: range, base: float, between: int) -> tuple[tuple[float, ...], Tensor]:
    """Return the positions, with ``between`` fractional positions between neighbours, and the sinusoidal encoding
    at each of them.
    """
    exact = table(width, positions, base)
    count = (len(positions) - 1) * (between + 1) + 1
    fine = torch.arange(count, dtype=torch.float64) / (between + 1) + positions[0]
    frequencies = 2 * math.pi / torch.tensor(wavelength_by_pair(width, base), dtype=torch.float64)
    angles = fine[:, None] * frequencies
    values = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
    values[:: between + 1] = exact
    return tuple(fine.tolist()), values


def wavelength_by_pair(width: int, base: float = 10_000.0) -> list[float]:
    """Return every pair's wavelength, in positions."""
    return [2 * math.pi / float(f) for f in posenc.scaling.Default().frequencies(width, base).exact]


def similarity(code: Float[Tensor, "T C"]) -> Heatmap:
    """Return a heatmap of the cosines between all positions' encodings; a cosine depends only on the distance."""
    at = counted("position", len(code))
    return Heatmap("cosine of each pair of positions", code @ code.T / (code.shape[1] / 2), at, at, "magnitude")


@bounded
def falloff(
    width: Width = 128,
    furthest: Annotated[int, Bounds(2, 4096)] = 60,
    base: Base = 10_000.0,
    pairs: bool = False,
) -> View:
    """Show the dot product of two positions' encodings by distance. It falls overall; a mark shows the first
    distance at which it rises.

    Args:
        width, base: the width and base of the encoding.
        furthest: the last distance.
        pairs: whether to show all pairs of the first 64 positions instead of a curve.
    """
    values = table(width, range(furthest + 1), base)
    dots = values @ values[0]
    shown = dots[:SQUARE] if pairs else dots
    rises = (shown.diff() > 0).nonzero().flatten()
    title = f"Up to distance {len(shown) - 1}, nearer is more similar at every step"
    marks: tuple[tuple[float, str], ...] = ()
    readouts: dict[str, float | str] = {"at distance 0": float(dots[0]), "at distance 1": float(dots[1])}
    if len(rises):
        rise = int(rises[0])
        title = f"Nearer is more similar, but not always: it rises again after distance {rise}"
        gain = plain(float(shown[rise + 1] - shown[rise]), 2)
        marks = ((float(rise), f"{rise} → {rise + 1}: +{gain}"),)
        readouts["first rise after distance"] = rise
    curve = Lines(
        "falloff",
        (Line("PE(p)·PE(p+k)", dots, "sinusoidal"),),
        counted("distance k", furthest + 1, unit="positions"),
        "dot product",
        marks=marks,
    )
    return View(
        title,
        (similarity(values[:SQUARE]) if pairs else curve,),
        readouts,
        "import torch, posenc\n"
        f"code = posenc.Sinusoidal({width}, base={base!r}).table(torch.arange({furthest + 1}))\n"
        "print(code @ code[0])",
    )


@bounded
def shift(
    width: Annotated[int, Bounds(2, 32)] = 8, by: Annotated[int, Bounds(0, 10_000)] = 5, base: Base = 10_000.0
) -> View:
    """Show R(k), the matrix that maps every PE(p) to PE(p+k), and one position's encoding before and after the
    shift.

    A least-squares fit to pairs of PE(p) and PE(p+k) also gives R(k).
    """
    rotation = rotation_matrix(width, by, base)
    # Positions far apart, so that even the slowest pair moves enough to solve for it.
    at = [997 * i for i in range(4 * width)]
    here, there, moved = (table(width, places, base) for places in (at, [p + by for p in at], [1, 1 + by]))
    solved = torch.linalg.lstsq(here, there).solution.T
    dims = counted("dimension", width)
    errors = (here @ rotation.T - there, solved - rotation, rotation @ rotation.T - torch.eye(width).double())
    worst = float(torch.stack([error.abs().max() for error in errors]).max())
    return View(
        f"One fixed rotation moves every encoding by {by}",
        (
            Heatmap(f"R({by})", rotation, dims, dims, "signed", limit=1.0),
            Heatmap(
                "one encoding, moved",
                torch.stack((moved[0], rotation @ moved[0], moved[1])),
                labelled("", ("PE(1)", f"R({by}) PE(1)", f"PE({1 + by})")),
                dims,
                "signed",
                limit=1.0,
            ),
        ),
        # A rounded bound: the error itself is noise and differs from run to run.
        {
            f"error of {4 * width} moved encodings, at most": next(
                bound for bound in (1e-12, 1e-9, 1e-6, 1e-3, 1.0, math.inf) if worst <= bound
            )
        },
        "import torch, posenc\n"
        f"code, at = posenc.Sinusoidal({width}, base={base!r}), 997 * torch.arange({4 * width})\n"
        f"here, there = code.table(at, torch.float64), code.table(at + {by}, torch.float64)\n"
        "print(torch.linalg.lstsq(here, there).solution.T)",
    )


def rotation_matrix(width: int, by: int, base: float = 10_000.0) -> Float[Tensor, "C C"]:
    """Return R(k), which has a block [[cos, sin], [−sin, cos]] with angle k·θ_i for every pair (sin, cos)."""
    sin, cos = table(width, [by], base)[0].view(-1, 2).T
    return torch.block_diag(*torch.stack((torch.stack((cos, sin), -1), torch.stack((-sin, cos), -1)), -2))
