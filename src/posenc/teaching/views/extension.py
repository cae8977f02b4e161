"""How do the methods of extension differ: which pairs each slows, and which it sends where training never was."""

import math

import torch
from torch import Tensor

from posenc.pictures.view import Line, Lines, View, counted
from posenc.scaling import Default, Frequencies, method, planned
from posenc.scaling.wavelengths import frequencies, slowing, wavelengths
from posenc.teaching.views.bounds import bounded
from posenc.teaching.views.scaling import LABELS, Factor, RopeBase, Rotated, Trained

METHODS = ("linear", "ntk", "yarn", "llama3")

PYTHON = """\
import math
from posenc.scaling import NTK, Default

plain, scaled = Default().frequencies({rotary_dim}, {base}), NTK({factor}).frequencies({rotary_dim}, {base})
pairs = zip(plain.exact, scaled.exact)
print([{factor} * float(s / p) for p, s in pairs if 2 * math.pi / float(p) > {original_length}])"""


@bounded
def methods(
    rotary_dim: Rotated = 128, base: RopeBase = 10_000.0, factor: Factor = 8.0, original_length: Trained = 4096
) -> View:
    """Every method on one picture.

    Args:
        rotary_dim, base: of the rotation.
        factor: s, the longer length over the trained one.
        original_length: L, the trained length.

    The right panel holds (s·L·θ'_i) / (L·θ_i) for the pairs with 2π/θ_i > L: the largest angle of the longer
    text over the largest of training. Pairs that completed a turn have met every angle and are left out.
    """
    plain = Default().frequencies(rotary_dim, base)
    spectra = {"none": plain}
    slower = [Line("none", torch.ones(len(plain)))]
    for name in METHODS:
        label = LABELS[name]
        scaling = planned(method(name, factor, original_length), math.ceil(factor * original_length))
        spectra[label] = scaling.frequencies(rotary_dim, base)
        slower.append(Line(label, torch.tensor(slowing(scaling, rotary_dim, base))))
    angles = {label: beyond(plain, scaled, factor, original_length) for label, scaled in spectra.items()}
    never = len(angles["none"])
    panels = [Lines("slowed, by pair", tuple(slower), counted("pair", len(plain)), "times slower", y_log=True)]
    if never:
        further = tuple(Line(label, ratio) for label, ratio in angles.items())
        slow_pairs = counted("pair without a full turn", never, first=len(plain) - never)
        panels.append(Lines("largest angle, of the largest in training", further, slow_pairs, "ratio"))
    outside = {label: int((ratio > 1 + ROUNDING).sum()) for label, ratio in angles.items() if label != "none"}
    readouts: dict[str, float | str] = {"pairs without a full turn in training": never}
    for label, count in outside.items():
        readouts[f"{label}: untrained"] = count
        if count:
            readouts[f"{label}: furthest"] = float(angles[label].max())
    return View(
        title=_title(outside),
        panels=tuple(panels),
        readouts=readouts,
        python=PYTHON.format(rotary_dim=rotary_dim, base=base, factor=factor, original_length=original_length),
    )


def _title(outside: dict[str, int]) -> str:
    leaving = [label for label, count in outside.items() if count]
    if not leaving:
        return "No method leaves the angles of training here"
    staying = [label for label, count in outside.items() if not count]
    return f"Beyond the angles of training: {', '.join(leaving)}; inside them: {', '.join(staying) or 'none'}"


ROUNDING = 1e-12
"""Ratios are quotients of float64 roundings of 50-digit frequencies."""


def beyond(plain: Frequencies, scaled: Frequencies, factor: float, original_length: int) -> Tensor:
    """Largest angle at ``factor`` times the trained length over the largest in training.

    One number for each pair that completes no turn in training; they are the last of all pairs.
    """
    ratio = factor * frequencies(scaled) / frequencies(plain)
    return ratio[wavelengths(plain) > original_length]
