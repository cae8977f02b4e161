"""The task ``needle``: which of 16 values is hidden in noise? The answer depends only on content, not on order."""

from typing import ClassVar

import torch

from posenc.workbench.tasks.task import Batch, DrawnTask, last_target

NOISE, VALUES = 32, 16
QUESTION = NOISE + VALUES


class Needle(DrawnTask):
    """The answer at the final question mark is the index of the hidden value."""

    question = "which of 16 values is hidden in noise? (content only)"
    shortest: ClassVar[int] = 16
    train_length: int = 64
    vocabulary: int = NOISE + VALUES + 1
    outputs: int = VALUES
    steps: ClassVar[int] = 200
    batch: ClassVar[int] = 32
    chance: float = 1 / VALUES

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(NOISE, (rows, length), generator=generator)
        at = torch.randint(length - 1, (rows, 1), generator=generator)
        values = torch.randint(VALUES, (rows,), generator=generator)
        tokens.scatter_(1, at, NOISE + values[:, None])
        tokens[:, -1] = QUESTION
        depth = tuple((at[:, 0] / max(length - 2, 1)).tolist())
        return Batch(tokens, last_target(rows, length, values), depth)
