"""The task ``recent``: which of several values in noise comes last? The order of the values determines the
answer."""

from typing import ClassVar

import torch

from posenc.workbench.tasks.needle import NOISE, QUESTION, VALUES, Needle
from posenc.workbench.tasks.task import Batch, last_target

NEEDLES = 4


class Recent(Needle):
    """The last token is a question mark. Its answer is the last of the four values, as an index."""

    question = "four values are hidden in noise: which comes last? (needs order)"
    steps: ClassVar[int] = 1000

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(NOISE, (rows, length), generator=generator)
        at = torch.rand(rows, length - 1, generator=generator).argsort(1)[:, :NEEDLES].sort(1).values
        values = torch.randint(VALUES, (rows, NEEDLES), generator=generator)
        tokens.scatter_(1, at, NOISE + values)
        tokens[:, -1] = QUESTION
        depth = tuple((at[:, -1] / max(length - 2, 1)).tolist())
        return Batch(tokens, last_target(rows, length, values[:, -1]), depth)
