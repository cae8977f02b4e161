"""How wrong do angles become far out? Integer phases against the float32 angles of public checkpoints."""

from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Annotated

import torch
from torch import Tensor

import posenc
from posenc.pictures.numbers import short
from posenc.pictures.view import Arrow, Axis, Line, Lines, Plane, View, counted
from posenc.scaling import Default, Frequencies
from posenc.scaling.scaling import TWO_PI
from posenc.teaching.views.bounds import FAR, Base, Bounds, Position, Width, bounded

POSITIONS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 2**31 - 1)

PYTHON = """\
import torch, posenc
from posenc.scaling import Default

frequencies, p = Default().frequencies({head_dim}, {base}), torch.tensor([{position}])
exact = posenc.Clock(frequencies)(p)                       # cos and sin of every pair, (1, {pairs}) each
float32 = posenc.Clock(frequencies, "float32")(p)
print(max((e - f).abs().max() for e, f in zip(exact, float32)))"""


@bounded
def phases(
    position: Position = 1_000_000,
    head_dim: Width = 128,
    base: Base = 10_000.0,
    pair: Annotated[int, Bounds(0, 511)] = 1,
) -> View:
    """Where one pair's hand points by both clocks, and the largest error of any pair over positions.

    The judge is a reference of its own: each angle is reduced modulo 2π in 50-digit decimals, and only then
    rounded to float64 for cos and sin, so that its error is below 1e-15 wherever it is asked.
    """
    frequencies = Default().frequencies(head_dim, base)
    exact, float32 = posenc.Clock(frequencies), posenc.Clock(frequencies, "float32")
    pair = min(pair, len(frequencies) - 1)
    at = torch.tensor([position])
    true, drifted = ([float(table[0, pair]) for table in clock(at)] for clock in (exact, float32))
    shown = max(abs(a - b) for a, b in zip(true, drifted, strict=True))
    plane = Plane(
        f"pair {pair} at this position",
        (
            Arrow("exact", true[0], true[1], role="reference"),
            Arrow("float32", drifted[0], drifted[1], role="query"),
        ),
        1.1,
    )
    names = {"exact turns": exact, "float32 angles": float32}
    curves = {name: [_error(clock, p) for p in POSITIONS] for name, clock in names.items()}
    curve = Lines(
        "largest error of cos and sin, all pairs",
        tuple(Line(name, torch.tensor(values)) for name, values in curves.items()),
        Axis("position", tuple(float(p) for p in POSITIONS), log=True),
        "error",
        y_log=True,
        marks=((float(max(position, 1)), "here"),),
    )
    return View(
        title=f"At position {short(position)}, the float32 angle of pair {pair} is off by {shown:.2g}",
        panels=(plane, curve),
        readouts={
            "error of this pair, float32 angles": shown,
            "largest error of any pair, float32 angles": drift(frequencies, position),
            "largest error of any pair, exact turns": _error(exact, position),
        },
        python=PYTHON.format(head_dim=head_dim, base=base, position=position, pairs=head_dim // 2),
    )


def drift(frequencies: Frequencies, position: int) -> float:
    """Largest error of cos and sin at this position, all pairs, where angles are float32 numbers of radians."""
    return _error(posenc.Clock(frequencies, "float32"), position)


def _error(clock: posenc.Clock, position: int) -> float:
    """Largest |error| of cos and sin over all pairs; at least 1e-17, so that a log axis can show it."""
    truth = _truth(clock.frequencies, position)
    tables = clock(torch.tensor([position]))
    worst = max(float((table[0].double() - true).abs().max()) for table, true in zip(tables, truth, strict=True))
    return max(worst, 1e-17)


@lru_cache(maxsize=256)
def _truth(frequencies: Frequencies, position: int) -> tuple[Tensor, Tensor]:
    with localcontext() as context:
        context.prec = 50
        angles = [float((Decimal(position) * f) % TWO_PI) for f in frequencies.exact]
    angle = torch.tensor(angles, dtype=torch.float64)
    return angle.cos(), angle.sin()


FLOOR_PYTHON = """\
import torch, posenc
from posenc.scaling import Default

frequencies, p = Default().frequencies({head_dim}, {base}), torch.tensor([{position}])
exact = posenc.Clock(frequencies)(p, torch.float64)
float32 = posenc.Clock(frequencies, "float32")(p)
print(torch.stack([(e - f).abs()[0] for e, f in zip(exact, float32)]).amax(0))    # one number a pair"""


@bounded
def floor(
    position: Annotated[int, Bounds(1, FAR)] = 1_000_000, head_dim: Width = 128, base: Base = 10_000.0
) -> View:
    """How wrong each pair's hand is at one position when its angle is a float32 number of radians.

    An angle p·θ is rounded to 24 bits, so its error is up to p·θ·2⁻²⁵ and only pairs that hardly turn are right.
    """
    frequencies = Default().frequencies(head_dim, base)
    truth = _truth(frequencies, position)
    tables = posenc.Clock(frequencies, "float32")(torch.tensor([position]))
    errors = torch.stack([(t[0].double() - true).abs() for t, true in zip(tables, truth, strict=True)]).amax(0)
    pairs = counted("pair", len(frequencies))
    rounding = [max(float(f) * position * 2.0**-25, 1e-9) for f in frequencies.exact]
    wrong = int((errors > VISIBLE).sum())
    lines = (
        Line("float32 angles", errors.clamp(min=1e-9)),
        Line("p·θ·2⁻²⁵", torch.tensor(rounding, dtype=torch.float64)),
    )
    return View(
        f"At position {short(position)}, {wrong} of {len(frequencies)} pairs are off by more than 1/1000",
        (
            Lines(
                "error of cos and sin", lines, pairs, "error", y_log=True, levels=((VISIBLE, "1/1000"),), apart=True
            ),
        ),
        {"largest error": float(errors.max()), "pairs off by more than 1/1000": wrong},
        FLOOR_PYTHON.format(head_dim=head_dim, base=base, position=position),
    )


VISIBLE = 1e-3
"""An error of cos or sin that bfloat16, with 8 bits, still sees."""
