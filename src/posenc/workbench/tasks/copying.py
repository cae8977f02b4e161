"""The tasks ``copying`` and ``reverse``: repeat a sequence after a separator, forwards or backwards.

Every token of the copy is scored, given the tokens before it. Symbols may repeat, so the last copied symbol
does not show where to continue: the model must use positions. The tasks are from Kazemnejad et al. 2023 (arXiv
2305.19466) on length generalisation.
"""

from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask

SYMBOLS = 16


class Copying(DrawnTask):
    """A sequence has n symbols, a separator, and the same n symbols again as answers. The token that predicts an
    answer is n tokens after the symbol to copy.
    """

    question = "repeat the sequence after the separator (share of tokens right)"
    shortest: ClassVar[int] = 12
    train_length: int = 32
    vocabulary: int = SYMBOLS + 1
    outputs: int = SYMBOLS
    steps: ClassVar[int] = 2000
    chance: float = 1 / SYMBOLS
    scores_every_answer: ClassVar[bool] = True

    def answers(self, symbols: Int[Tensor, "B n"]) -> Int[Tensor, "B n"]:
        """Return the answers for these symbols."""
        return symbols

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        n = length // 2
        symbols = torch.randint(SYMBOLS, (rows, n), generator=generator)
        answers, separator = self.answers(symbols), torch.full((rows, 1), SYMBOLS)
        tokens = torch.cat((symbols, separator, answers[:, :-1]), dim=1)
        return Batch(tokens, torch.cat((torch.full((rows, n), IGNORE), answers), dim=1))


class Reverse(Copying):
    """The answers are the n symbols in reverse order. The token that predicts the k-th answer is 2k − 1 tokens
    after the symbol to copy, so all distances differ.
    """

    question = "repeat the sequence backwards after the separator (share of tokens right)"

    def answers(self, symbols: Int[Tensor, "B n"]) -> Int[Tensor, "B n"]:
        return symbols.flip(1)
