"""The view that compares the sinusoidal encoding with a binary counter at the same positions."""

from typing import Annotated, Literal

import torch

from posenc.pictures.view import Heatmap, View, counted
from posenc.teaching.views.bounds import Bounds, bounded
from posenc.teaching.views.sinusoidal import table

PYTHON = """\
import torch, posenc

positions, bits = torch.arange({positions}), torch.arange({bits})
print(positions >> bits[:, None] & 1)                                          # the counter
print(posenc.Sinusoidal({width}, base={base!r}).table(positions)[:, 1::2].T)    # the cosine of every hand"""


@bounded
def bits_and_hands(
    bits: Annotated[int, Bounds(1, 8)] = 4,
    positions: Annotated[int, Bounds(2, 256)] = 32,
    frequencies: Literal["halving", "real"] = "halving",
) -> View:
    """Show the bits of every position, fastest first, above the cosines of the same number of clock hands.

    A flip of a bit corresponds to half a turn of its hand: bit i flips every 2^i positions, and hand i turns by π
    every π/θ_i positions. The counter jumps, but hands move smoothly: each step rotates hand i by θ_i. Frequencies
    are halved from hand to hand, as for bits, or are those of the sinusoidal encoding with base 10 000.
    """
    base = float(2**bits) if frequencies == "halving" else 10_000.0
    counter = torch.arange(positions) >> torch.arange(bits)[:, None] & 1
    hands = table(2 * bits, range(positions), base)[:, 1::2].T
    columns = counted("position", positions)
    return View(
        "Hands are a binary counter with smooth bits, each slower than the one before",
        (
            Heatmap("bits", counter.double(), counted("bit", bits), columns, "magnitude", limit=1.0),
            Heatmap("cosines of the hands", hands, counted("pair", bits), columns, "signed", limit=1.0),
        ),
        python=PYTHON.format(positions=positions, bits=bits, width=2 * bits, base=base),
    )
