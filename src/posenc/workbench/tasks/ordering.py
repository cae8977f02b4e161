"""The task ``ordering``: is the sequence ascending? The model answers after every token, but tests score only
the last answer.

Half of the sequences ascend, a quarter are random, and a quarter ascend except for one swap of neighbours, because
random sequences alone would be easy negatives. Symbols may repeat, so a sequence of any length can ascend, and the
length reveals nothing about the answer.
"""

from typing import ClassVar

import torch

from posenc.workbench.tasks.task import Batch, DrawnTask

SYMBOLS = 8


class Ordering(DrawnTask):
    """The answer is 1 until a symbol is lower than the symbol before it, and 0 from then on."""

    question = "is the sequence ascending? (half the negatives differ from a positive by one swap)"
    shortest: ClassVar[int] = 6
    train_length: int = 16
    vocabulary: int = SYMBOLS
    outputs: int = 2
    steps: ClassVar[int] = 600
    chance: float = 0.5

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(SYMBOLS, (rows, length), generator=generator)
        kind = torch.arange(rows) % 4  # 0, 1: ascending; 2: one swap; 3: random
        ascending = tokens.sort(dim=1).values
        tokens = torch.where((kind == 3)[:, None], tokens, ascending)
        tokens = torch.where((kind == 2)[:, None], _swap_one_descent(ascending, generator), tokens)
        descents = (tokens[:, 1:] < tokens[:, :-1]).cumsum(1)
        so_far = torch.cat((torch.ones(rows, 1, dtype=torch.int64), (descents == 0).long()), dim=1)
        return Batch(tokens, so_far)


def _swap_one_descent(ascending: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Swap one pair of unequal neighbours in every row. Each such pair is equally likely."""
    rises = (ascending[:, 1:] > ascending[:, :-1]).double()
    rises[rises.sum(1) == 0, 0] = 1.0  # a row of one symbol has no pair to swap and stays ascending
    at = torch.multinomial(rises, 1, generator=generator)
    left, right = ascending.gather(1, at), ascending.gather(1, at + 1)
    return ascending.scatter(1, at, right).scatter(1, at + 1, left)
