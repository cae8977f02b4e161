"""The view of the errors of cos and sin at far positions if angles are float32, as in public checkpoints."""

from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Annotated

import torch
from torch import Tensor

import posenc
from posenc.pictures.numbers import short
from posenc.pictures.view import Line, Lines, View, counted
from posenc.scaling import Default, Frequencies
from posenc.scaling.scaling import TWO_PI
from posenc.teaching.views.bounds import FAR, Base, Bounds, Width, bounded


@lru_cache(maxsize=256)
def _truth(frequencies: Frequencies, position: int) -> tuple[Tensor, Tensor]:
    with localcontext() as context:
        context.prec = 50
        angles = [float((Decimal(position) * f) % TWO_PI) for f in frequencies.exact]
    angle = torch.tensor(angles, dtype=torch.float64)
    return angle.cos(), angle.sin()


PYTHON = """\
import torch, posenc
from posenc.scaling import Default

frequencies, p = Default().frequencies({head_dim}, {base}), torch.tensor([{position}])
exact = posenc.Clock(frequencies)(p, torch.float64)
float32 = posenc.Clock(frequencies, "float32")(p)
print(torch.stack([(e - f).abs()[0] for e, f in zip(exact, float32)]).amax(0))    # one number per pair"""


@bounded
def floor(
    position: Annotated[int, Bounds(1, FAR)] = 1_000_000, head_dim: Width = 128, base: Base = 10_000.0
) -> View:
    """Show the error of cos and sin for each pair at one position if the angle in radians is a float32 number.

    An angle p·θ is rounded to 24 bits, so its error is up to p·θ·2⁻²⁵, and only slow pairs are accurate.
    """
    frequencies = Default().frequencies(head_dim, base)
    truth = _truth(frequencies, position)
    tables = posenc.Clock(frequencies, "float32")(torch.tensor([position]))
    errors = torch.stack([(t[0].double() - true).abs() for t, true in zip(tables, truth, strict=True)]).amax(0)
    pairs = counted("pair", len(frequencies))
    wrong = int((errors > VISIBLE).sum())
    lines = (Line("error", errors.clamp(min=1e-9)),)
    return View(
        f"At position {short(position)}, {wrong} of {len(frequencies)} pairs are off by more than 1/1000",
        (
            Lines(
                "error of cos and sin", lines, pairs, "error", y_log=True, levels=((VISIBLE, "1/1000"),), apart=True
            ),
        ),
        {"largest error": float(errors.max()), "pairs off by more than 1/1000": wrong},
        PYTHON.format(head_dim=head_dim, base=base, position=position),
    )


VISIBLE = 1e-3
"""An error of cos or sin that is visible in bfloat16, which has 8 significant bits."""
