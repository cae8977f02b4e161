"""The task ``neighbours``: for every cell of a grid, which symbol is in the cell above, below, left or right?

The model can find the neighbouring cell only by position.
"""

from math import isqrt
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from posenc import positions
from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask

SYMBOLS = 16
SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""The steps in rows and columns to the cells above, below, left and right."""


class Neighbours(DrawnTask):
    """Each token stands for a symbol and a side. Its answer is the symbol of the neighbouring cell on that side.
    Grids may have any size."""

    question = "every cell of a grid asks: which symbol is above, below, left or right?"
    train_length: int = 64
    vocabulary: int = SYMBOLS * len(SIDES)
    outputs: int = SYMBOLS
    steps: ClassVar[int] = 500
    batch: ClassVar[int] = 32
    learning_rate: ClassVar[float] = 8e-3
    chance: float = 1 / SYMBOLS
    scores_every_answer: ClassVar[bool] = True
    causal: ClassVar[bool] = False

    def places(self, length: int) -> tuple[int, int]:
        """Return the rows and columns of a nearly square grid with at most ``length`` cells."""
        rows = isqrt(length)
        return rows, length // rows

    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        """Draw a batch. The numbers of rows and columns are drawn independently, so that only positions reveal a
        row's length."""
        side = isqrt(self.train_length)
        rows, columns = torch.randint(2, side + 1, (2,), generator=generator).tolist()
        return _asked(generator, size, rows, columns)

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        return _asked(generator, rows, *self.places(length))


def _asked(generator: torch.Generator, count: int, rows: int, columns: int) -> Batch:
    symbols = torch.randint(SYMBOLS, (count, rows, columns), generator=generator)
    asked = torch.randint(len(SIDES), (count, rows, columns), generator=generator)
    tokens = symbols * len(SIDES) + asked
    answers = _on_sides(symbols).gather(0, asked[None])[0]
    return Batch(tokens.flatten(1), answers.flatten(1), positions=positions.grid(rows, columns))


def _on_sides(symbols: Int[Tensor, "B rows columns"]) -> Int[Tensor, "sides B rows columns"]:
    """Return the symbol on each side of every cell, with ``IGNORE`` past the edge."""
    (rows, columns), framed = symbols.shape[1:], pad(symbols, (1, 1, 1, 1), value=IGNORE)
    return torch.stack([framed[:, 1 + y : 1 + y + rows, 1 + x : 1 + x + columns] for y, x in SIDES])
