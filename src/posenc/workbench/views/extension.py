"""How do the methods of extension differ: which pairs each slows, and which it sends where training never was."""

import math

import torch
from torch import Tensor

from posenc.schedules import Default, LengthSchedule, Spectrum
from posenc.workbench.views.schedule import frequencies, named, slowing, wavelengths
from posenc.workbench.views.view import Line, Lines, View, counted, within

METHODS = {"linear": "PI", "ntk": "NTK", "yarn": "YaRN", "llama3": "Llama 3"}

PYTHON = """\
from posenc.workbench.views.extension import beyond
from posenc.schedules import *

plain = Default().spectrum({rotary_dim}, {base})
scaled = NTK({factor}).spectrum({rotary_dim}, {base})
print(beyond(plain, scaled, {factor}, {original_length}))"""


def methods(
    rotary_dim: int = 128, base: float = 10_000.0, factor: float = 8.0, original_length: int = 4096
) -> View:
    """Every method on one picture.

    Args:
        rotary_dim, base: of the rotation.
        factor: s, the longer length over the trained one.
        original_length: L, the trained length.

    The right panel holds (s·L·θ'_i) / (L·θ_i) for the pairs with 2π/θ_i > L: the largest angle of the longer
    text over the largest of training. Pairs that completed a turn have met every angle and are left out.
    """
    within("rotary_dim", rotary_dim, 4, 1024)
    within("factor", factor, 1, 1024)
    within("original_length", original_length, 2, 2**31 - 1)
    plain = Default().spectrum(rotary_dim, base)
    pairs = counted("pair", rotary_dim // 2)
    slower, further = (
        [Line("none", torch.ones(len(plain)))],
        [Line("none", beyond(plain, plain, factor, original_length))],
    )
    readouts: dict[str, float | str] = {"pairs that never turned": int(further[0].values.isfinite().sum())}
    for name, label in METHODS.items():
        schedule = named(name, factor, original_length)
        assert not isinstance(schedule, LengthSchedule)
        slower.append(Line(label, torch.tensor(slowing(schedule, rotary_dim, base))))
        angles = beyond(plain, schedule.spectrum(rotary_dim, base), factor, original_length)
        further.append(Line(label, angles))
        readouts[f"{label}: pairs beyond trained angles"] = int((angles > 1 + ROUNDING).sum())
        readouts[f"{label}: furthest"] = float(angles.nan_to_num(0.0).max())
    return View(
        title="PI blurs neighbours, NTK leaves the trained range, YaRN and Llama 3 do neither",
        panels=(
            Lines("times slower", tuple(slower), pairs, "slowed by", y_log=True),
            Lines("angle reached, of that in training", tuple(further), pairs, "ratio"),
        ),
        readouts=readouts,
        python=PYTHON.format(rotary_dim=rotary_dim, base=base, factor=factor, original_length=original_length),
    )


ROUNDING = 1e-12
"""Ratios are quotients of float64 roundings of 50-digit frequencies."""


def beyond(plain: Spectrum, scaled: Spectrum, factor: float, original_length: int) -> Tensor:
    """Largest angle at ``factor`` times the trained length over the largest in training, per pair.

    NaN for pairs that completed a turn in training.
    """
    ratio = factor * frequencies(scaled) / frequencies(plain)
    return torch.where(wavelengths(plain) > original_length, ratio, math.nan)
