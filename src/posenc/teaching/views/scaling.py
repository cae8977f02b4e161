"""The view of a scaling: the scaled and unscaled wavelength of every pair, and the trained length."""

import math
from typing import Annotated

from posenc.pictures.numbers import short
from posenc.pictures.view import Line, Lines, View, counted
from posenc.scaling import Default, LengthScaling, Scaling, method, planned, to_dict
from posenc.scaling.wavelengths import slowing, turns, wavelengths
from posenc.teaching.views.bounds import FAR, Bounds, bounded

LABELS = {"linear": "PI", "ntk": "NTK", "dynamic": "dynamic NTK", "yarn": "YaRN", "llama3": "Llama 3"}
"""The labels of the scalings that are not labelled with their own name."""


@bounded
def scaled(
    scaling: str = "yarn",
    rotary_dim: Annotated[int, Bounds(4, 1024)] = 128,
    base: Annotated[float, Bounds(100, 1e9)] = 10_000.0,
    factor: Annotated[float, Bounds(1, 1024)] = 8.0,
    original_length: Annotated[int, Bounds(2, FAR)] = 4096,
) -> View:
    """Show the effect of a scaling on the wavelength of every pair."""
    return drawn(
        method(scaling, factor, original_length),
        rotary_dim,
        base,
        original_length,
        math.ceil(factor * original_length),
    )


def drawn(
    chosen: Scaling | LengthScaling,
    rotary_dim: int,
    base: float,
    original_length: int,
    total_length: int | None = None,
) -> View:
    """Show the wavelengths of all pairs under a scaling, next to the wavelengths without scaling.

    A scaling that depends on the length of the request is drawn for ``total_length`` tokens.
    """
    scaling = planned(chosen, total_length)
    stretched, plain = scaling.frequencies(rotary_dim, base), Default().frequencies(rotary_dim, base)
    slowed = slowing(scaling, rotary_dim, base)
    most = max(slowed)
    same = most < 1.0 + 1e-9
    known = to_dict(chosen)["scaling"]
    name = LABELS.get(known, known)
    complete = turns(plain, original_length)
    mark = ((complete - 0.5, "one turn in training"),) if 0 < complete < len(plain) else ()
    lines = (Line("unscaled", wavelengths(plain)), Line(name, wavelengths(stretched), "rotary"))
    unslowed = sum(s < 1.0 + 1e-9 for s in slowed)
    slowest = 0 if same else sum(s >= most * (1 - 1e-9) for s in slowed)
    less = len(plain) - unslowed - slowest
    by = f"by {short(float(f'{most:.6g}'))} times" if math.isfinite(most) else "to a standstill"
    rest = f" and {less} by less" if less else ""
    return View(
        f"{name} keeps {unslowed} of {len(plain)} pairs, slows {slowest} {by}{rest}"
        if not same
        else "The unscaled frequencies",
        (
            Lines(
                "wavelength",
                lines[:1] if same else lines,
                counted("pair", rotary_dim // 2),
                "wavelength",
                "positions",
                y_log=True,
                marks=mark,
                levels=((float(original_length), "trained length"),),
            ),
        ),
        {
            "pairs that keep their frequency": unslowed,
            **({} if same else {f"pairs slowed {by}": slowest, "pairs slowed by less": less}),
            "pairs with a full turn, unscaled": complete,
            "q and k are multiplied by": stretched.attention_factor,
        },
        "import math\nfrom posenc.scaling import *\n\n"
        f"pairs = {scaling!r}.frequencies({rotary_dim}, {base!r})\n"
        "print([2 * math.pi / float(f) if f else math.nan for f in pairs.exact])",
    )
