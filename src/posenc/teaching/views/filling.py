"""How is the sinusoidal table filled? Row by row, 12 positions by 8 dimensions, in four frames."""

import math

import posenc
from posenc.pictures.view import Heatmap, View, counted
from posenc.teaching.views.bounds import Step, bounded

POSITIONS, WIDTH = 12, 8
ROWS = (0, 1, 2, POSITIONS)
"""Rows that are filled in each frame."""

PYTHON = """\
import posenc

code = posenc.Sinusoidal({width}).table(posenc.positions.arange({positions}))
print({printed})"""


@bounded
def filled(step: Step = 4) -> View:
    """The lessons' frames: empty, row 0 (0 1 0 1 …), row 1 (sines and cosines of the frequencies), all rows."""
    rows = ROWS[step - 1]
    values = posenc.Sinusoidal(WIDTH).table(posenc.positions.arange(POSITIONS))
    values[rows:] = math.nan
    titles = (
        "A row per position, a column per dimension",
        "Row 0 is 0, 1, 0, 1: every hand at its start",
        "Row 1: each hand has turned by its own frequency",
        "Left columns turn fast, right ones hardly move",
    )
    printed = f"code[:{rows}]" if rows else "code.shape"
    python = PYTHON.format(width=WIDTH, positions=POSITIONS, printed=printed)
    panel = Heatmap(
        "code", values, counted("position", POSITIONS), counted("dimension", WIDTH), "signed", limit=1.0
    )
    return View(title=titles[step - 1], panels=(panel,), python=python)
