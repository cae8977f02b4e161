"""The task ``recent``: which of several values hidden in noise comes last? The order of the values determines the
answer."""

from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.workbench.tasks.needle import Needle

NEEDLES = 4


class Recent(Needle):
    """The last token is a question mark. Its answer is the last of the four hidden values, as an index from 0 to
    15."""

    question = "four values are hidden in noise: which comes last? (needs order)"
    steps: ClassVar[int] = 1000

    def hidden(self, generator: torch.Generator, rows: int, length: int) -> Int[Tensor, "B n"]:
        return torch.rand(rows, length - 1, generator=generator).argsort(1)[:, :NEEDLES].sort(1).values
