"""How does RoPE make a score of an offset? In four frames: q at 0, q rotated, k rotated, and their score."""

import math
from typing import Annotated

import torch

from posenc.pictures.view import Axis, Grip, Line, Lines, Plane, View
from posenc.teaching.views.bounds import Bounds, Step, bounded
from posenc.teaching.views.rotation import SCALINGS, STEPS, Turn, arrow, rotate_pair, tips
from posenc.teaching.views.sinusoidal import SMOOTH

REACH = 16
"""Offsets beside the picture, either way."""
DRAGGED = range(-REACH, REACH + 1)
"""Positions that a vector can be dragged to."""

PYTHON = """\
import math, torch, posenc

rope = posenc.Rotary(2, pairing="interleaved"{scaling})    # one pair
placed = rope.at(torch.tensor([{m}]), torch.tensor([{n}]), dtype=torch.float64)
east = torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 1, 1, 2)
q, k = placed.rotate(east, east)
print(q, k, (q * k).sum())    # the same score for every m and n with n − m = {offset}"""


@bounded
def stepper(
    step: Step = 4,
    m: Annotated[int, Bounds(-64, 64)] = 1,
    n: Annotated[int, Bounds(-64, 64)] = 3,
    turn: Turn = "eighth",
) -> View:
    """q and k lie along +x; q is rotated by m·θ, k by n·θ, each by its own position, and their score is
    cos((n − m)·θ).

    Args:
        step: 1 to 4, the frame.
        m, n: position of q and of k; they move apart and together as one likes.
        turn: θ, an eighth of a turn or 1 rad a position.
    """
    east = torch.tensor([1.0, 0.0], dtype=torch.float64)
    q, k = rotate_pair(east, m, turn), rotate_pair(east, n, turn)
    arrows = [arrow("q at 0", east, "query", ghost=step > 1)]
    if step > 1:
        arrows.append(arrow(f"q at m = {m}", q, "query", grip=Grip("m", m, tips(east, DRAGGED, 0, turn))))
    if step > 2:
        arrows.append(arrow(f"k at n = {n}", k, "key", grip=Grip("n", n, tips(east, DRAGGED, 0, turn))))
    theta, stride = float(STEPS[turn]), SMOOTH + 1
    offsets = torch.arange(-REACH * stride, REACH * stride + 1, dtype=torch.float64) / stride
    scores = (offsets * theta).cos()  # the wave; at whole offsets the library's own
    scores[::stride] = torch.stack([east @ rotate_pair(east, offset, turn) for offset in range(-REACH, REACH + 1)])
    if step < 4:
        scores = scores.masked_fill(offsets != 0, math.nan)
    marks = ((float(n - m), f"n − m = {n - m}"),) if step == 4 and abs(n - m) <= REACH else ()
    return View(
        (
            "q lies along +x at position 0",
            f"q is rotated by m·θ, m = {m}",
            f"k is rotated likewise, by n·θ, n = {n}",
            f"The score depends on n − m = {n - m} alone",
        )[step - 1],
        (
            Plane("one pair of channels", tuple(arrows), 1.1),
            Lines(
                "q·k by offset",
                (Line("q·k", scores, "rotary"),),
                Axis("offset n − m", tuple(offsets.tolist()), "positions"),
                "score",
                marks=marks,
                between=SMOOTH,
            ),
        ),
        {
            "q rotated by": f"{_turns(m * theta)} turns" if step > 1 else "–",
            "k rotated by": f"{_turns(n * theta)} turns" if step > 2 else "–",
            "q·k": float(q @ k) if step == 4 else "–",
            "offset n − m": str(n - m).replace("-", "−"),
        },
        PYTHON.format(m=m, n=n, scaling=SCALINGS[turn], offset=n - m),
    )


def _turns(angle: float) -> str:
    return f"{angle / (2 * math.pi):.3f}"
