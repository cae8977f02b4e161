"""ReRoPE: no distance above w (Su 2023, kexue.fm/archives/9708).

    distance used = min(d, w)

Far keys are not rotated, and queries that meet them stand at w.
"""

import math
from typing import ClassVar, final

import torch
from torch import Tensor

from posenc.encodings.rotary import Rotary
from posenc.remap.remap import Part, Remap


@final
class ReRoPE(Remap):
    """Distances up to ``window`` as they are, and all others equal to it; a cache keeps raw keys.

    The author's code multiplies queries by max(1, ln(p + 1)/ln L) besides, L the trained length: that is
    ``stack(rerope(…), query-scale(…))`` here.

    Args:
        rotary: the model's.
        window: w, the largest distance; below the trained length.
    """

    name: ClassVar[str] = "rerope"
    relative = True
    window: int

    def __init__(self, rotary: Rotary, window: int) -> None:
        super().__init__(rotary, window=window)

    def parts(self, q: Tensor, k: Tensor) -> tuple[Part, ...]:
        edge = q - self.window + 1
        zeros = None if self.rotary.attention_factor == 1.0 else torch.zeros_like(k)  # rotating by it changes nothing
        return Part(q, k, edge), Part(torch.full_like(q, self.window), zeros, None, edge)

    def longest(self, trained: int) -> float:
        return math.inf if self.window < trained else 0
