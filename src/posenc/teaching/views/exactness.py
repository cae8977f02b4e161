"""The view of the errors of cos and sin at far positions if angles are float32, as in public models."""

from typing import Annotated

import torch

import posenc
from posenc.pictures.numbers import short
from posenc.pictures.view import Line, Lines, View, counted
from posenc.scaling import Default
from posenc.teaching.views.bounds import FAR, Base, Bounds, Width, bounded

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

    Rounding an angle p·θ to 24 bits changes it by up to p·θ·2⁻²⁴, so only slow pairs are accurate.
    """
    frequencies, p = Default().frequencies(head_dim, base), torch.tensor([position])
    both = zip(posenc.Clock(frequencies)(p, torch.float64), posenc.Clock(frequencies, "float32")(p), strict=True)
    errors = torch.stack([(exact - rounded).abs()[0] for exact, rounded in both]).amax(0)
    wrong = int((errors > VISIBLE).sum())
    return View(
        f"At position {short(position)}, {wrong} of {len(frequencies)} pairs are off by more than 1/1000",
        (
            Lines(
                "error of cos and sin",
                (Line("error", errors.clamp(min=1e-9)),),
                counted("pair", len(frequencies)),
                "error",
                y_log=True,
                levels=((VISIBLE, "1/1000"),),
                apart=True,
            ),
        ),
        {"largest error": float(errors.max()), "pairs off by more than 1/1000": wrong},
        PYTHON.format(head_dim=head_dim, base=base, position=position),
    )


VISIBLE = 1e-3
"""An error of cos or sin that is visible in bfloat16, which has 8 significant bits."""
