"""A schedule drawn: frequency and wavelength of every pair beside the unscaled ones, the trained length marked."""

import math

import torch

from posenc.schedules import Default, Schedule, Spectrum, method, planned, to_dict
from posenc.workbench.views.view import Line, Lines, View, bounded, counted

LABELS = {"linear": "PI", "ntk": "NTK", "dynamic": "dynamic NTK", "yarn": "YaRN", "llama3": "Llama 3"}
"""How schedules are called in text, where that is not their name."""


@bounded("schedule")
def ladder(
    schedule: str = "yarn",
    rotary_dim: int = 128,
    base: float = 10_000.0,
    factor: float = 8.0,
    original_length: int = 4096,
) -> View:
    """What a schedule does to the frequency and wavelength of every pair."""
    fixed = planned(method(schedule, factor, original_length), math.ceil(factor * original_length))
    return drawn(fixed, rotary_dim, base, original_length)


def drawn(schedule: Schedule, rotary_dim: int, base: float, original_length: int) -> View:
    """Any fixed schedule, at these channels and this base, beside the unscaled ladder."""
    scaled, plain = schedule.spectrum(rotary_dim, base), Default().spectrum(rotary_dim, base)
    same = scaled.frequencies == plain.frequencies
    pairs = counted("pair", rotary_dim // 2)
    known = to_dict(schedule)["schedule"]
    name = LABELS.get(known, known)
    turning = turns(plain, original_length)
    mark = ((turning - 0.5, "slower: no full turn in training"),) if 0 < turning < len(plain) else ()
    panels = []
    for title, unit, show in (
        ("frequency", "radians per position", frequencies),
        ("wavelength", "positions", wavelengths),
    ):
        lines = [] if same else [Line("unscaled", show(plain))]
        lines.append(Line(name, show(scaled), "rotary"))
        if title == "wavelength":
            lines.append(Line("trained length", torch.full((len(plain),), float(original_length))))
        panels.append(Lines(title, tuple(lines), pairs, title, unit, y_log=True, marks=mark))
    slowed = slowing(schedule, rotary_dim, base)
    kept, most = sum(s < 1.0 + 1e-9 for s in slowed), max(slowed)
    readouts: dict[str, float | str] = {
        "pairs that keep their frequency": kept,
        "most slowed pair": f"{most:.4g} times" if math.isfinite(most) else "stands still",
        "pairs that turn within the trained length, unscaled": turning,
        "and scaled": turns(scaled, original_length),
        "attention factor": scaled.attention_factor,
    }
    return View(
        f"{name}: {kept} of {len(plain)} pairs keep their frequency" if not same else "The unscaled ladder",
        tuple(panels),
        readouts,
        f"from posenc.schedules import *\n\nprint({schedule!r}.spectrum({rotary_dim}, {base!r}))",
    )


def frequencies(spectrum: Spectrum) -> torch.Tensor:
    """θ_i in radians per position; NaN for a pair that stands still, which a logarithmic axis cannot show."""
    return torch.tensor([float(f) if f else math.nan for f in spectrum.frequencies], dtype=torch.float64)


def wavelengths(spectrum: Spectrum) -> torch.Tensor:
    """2π/θ_i in positions."""
    return 2 * math.pi / frequencies(spectrum)


def turns(spectrum: Spectrum, length: int) -> int:
    """How many pairs complete a turn within ``length`` positions."""
    return int((wavelengths(spectrum) <= length).sum())


def slowing(schedule: Schedule, rotary_dim: int, base: float) -> list[float]:
    """By how much each pair is slowed; infinity for one that stands still."""
    plain, scaled = (s.spectrum(rotary_dim, base).frequencies for s in (Default(), schedule))
    return [float(p / s) if s else math.inf for p, s in zip(plain, scaled, strict=True)]
