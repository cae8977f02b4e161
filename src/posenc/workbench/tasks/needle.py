"""The tasks ``needle`` and ``recent``: which of 16 values is hidden in noise, and which of several comes last?

The answer of ``needle`` depends only on content. The order of the values determines the answer of ``recent``.
"""

from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.workbench.tasks.task import Batch, DrawnTask, last_target

NOISE, VALUES = 32, 16
QUESTION = NOISE + VALUES
NEEDLES = 4
"""The number of values that a sequence of ``recent`` hides."""


class Needle(DrawnTask):
    """The last token of a sequence is a question mark. Its answer is the last hidden value, as an index from 0 to
    15."""

    question = "which of 16 values is hidden in noise? (content only)"
    shortest: ClassVar[int] = 16
    train_length: int = 64
    vocabulary: int = NOISE + VALUES + 1
    outputs: int = VALUES
    steps: ClassVar[int] = 200
    batch: ClassVar[int] = 32
    chance: float = 1 / VALUES

    def hidden(self, generator: torch.Generator, rows: int, length: int) -> Int[Tensor, "B n"]:
        """Draw the positions of the hidden values in ascending order."""
        return torch.randint(length - 1, (rows, 1), generator=generator)

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(NOISE, (rows, length), generator=generator)
        at = self.hidden(generator, rows, length)
        values = torch.randint(VALUES, at.shape, generator=generator)
        tokens.scatter_(1, at, NOISE + values)
        tokens[:, -1] = QUESTION
        depth = tuple((at[:, -1] / max(length - 2, 1)).tolist())
        return Batch(tokens, last_target(length, values[:, -1]), depth)


class Recent(Needle):
    """A sequence hides four values, and the answer is the last of them."""

    question = "four values are hidden in noise: which comes last? (needs order)"
    steps: ClassVar[int] = 1000

    def hidden(self, generator: torch.Generator, rows: int, length: int) -> Int[Tensor, "B n"]:
        return torch.rand(rows, length - 1, generator=generator).argsort(1)[:, :NEEDLES].sort(1).values
