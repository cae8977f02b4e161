"""Copying: after a separator, say the sequence again. Every token of the copy is scored, given those before it."""

from typing import ClassVar

import torch

from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask

SYMBOLS = 16


class Copying(DrawnTask):
    """n symbols, a separator, and the n symbols again: 2n tokens, n answers."""

    name = "copying"
    question = "say the sequence again after the separator (share of tokens right)"
    shortest: ClassVar[int] = 12
    train_length: int = 32
    vocabulary: int = SYMBOLS + 1
    outputs: int = SYMBOLS
    steps: ClassVar[int] = 2000
    batch: ClassVar[int] = 64
    learning_rate: ClassVar[float] = 3e-3
    chance: float = 1 / SYMBOLS
    scores_every_answer: ClassVar[bool] = True

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        n = length // 2
        symbols = torch.randint(SYMBOLS, (rows, n), generator=generator)
        separator = torch.full((rows, 1), SYMBOLS)
        tokens = torch.cat((symbols, separator, symbols[:, :-1]), dim=1)
        targets = torch.cat((torch.full((rows, n), IGNORE), symbols), dim=1)
        return Batch(tokens, targets)
