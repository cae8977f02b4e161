"""ReRoPE replaces distances above w with w (Su 2023, kexue.fm/archives/9708).

    distance used = min(d, w)

For distances above w, keys are unrotated and queries are rotated to position w.
"""

import math
from typing import ClassVar, final

import torch
from torch import Tensor

from posenc.arguments import Size
from posenc.encodings.placed import RemappedPart
from posenc.encodings.rotary import Rotary
from posenc.remap.remap import At, Remap


@final
class ReRoPE(Remap):
    """Leaves distances up to ``window`` unchanged and replaces larger distances with ``window``. A cache stores
    unrotated keys.

    The author's code also multiplies queries by max(1, ln(p + 1)/ln L), where p is the query's position and L is
    the trained length. To multiply queries by this factor, use ``stack(rerope(…), query-scale(…))``.

    Args:
        rotary: the model's own rotary encoding.
        window: w, the largest distance; it must be below the trained length.
    """

    name: ClassVar[str] = "rerope"
    relative = True

    def __init__(self, rotary: Rotary, window: Size) -> None:
        super().__init__(rotary)
        self.window = window

    def parts(self, q: Tensor, k: Tensor, at: At) -> tuple[RemappedPart, ...]:
        edge = q - self.window + 1
        # At position 0, a rotation only applies YaRN's attention factor.
        unrotated = None if self.rotary.attention_factor == 1.0 else at(torch.zeros_like(k))
        far = RemappedPart(at(torch.full_like(q, self.window)), unrotated, None, edge)
        return RemappedPart(at(q), at(k), edge), far

    def longest(self, trained: int) -> float:
        return math.inf if self.window < trained else trained
