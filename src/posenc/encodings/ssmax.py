"""Scalable softmax multiplies scores by the logarithm of the number of keys (Nakanishi 2025, arXiv 2501.19399).

    score(q, k) = (s_h·ln(p+1) + b_h)·q·k/√D

so that softmax over n keys stays as sharp as softmax over few keys: with x = q·k/√D, exp(s·ln n·x) = n^(s·x). s
and b are learned for every head and layer; b is optional (the paper omits it, Mistral Large 4 uses it). n is the
query's position plus one, which is the number of keys that it sees under a causal mask without a window. The paper
uses the sequence length instead. Positions restart in every packed document and do not count padding. Factors are
computed in float32 for models of every dtype. transformers rounds ln(p+1) and s to the model's dtype, so ln 131072
becomes 11.8125 in bfloat16.
"""

import math
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.arguments import Size, at_least
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions


@final
class SSMax(Encoding):
    """Multiplies the scores of a query at position p by s·ln(p+1) or s·ln(p+1) + b; s and b are learned per head.

    Args:
        heads: H, query heads.
        length: the number of keys at which the factor is initially 1: s starts at 1/ln(length).
        offset: whether b is added; b is initialised to zero.
    """

    name: ClassVar[str] = "ssmax"
    acts_on = ("scale",)
    relative = False
    per_layer = True

    def __init__(self, heads: Size, *, length: Annotated[int, at_least(2)] = 1024, offset: bool = False) -> None:
        super().__init__()
        self.heads, self.length = heads, length
        self.weight = nn.Parameter(torch.empty(heads))
        self.bias = nn.Parameter(torch.empty(heads)) if offset else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, 1 / math.log(self.length))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def factors(self, positions: Positions, dtype: torch.dtype = torch.float32) -> Float[Tensor, "#B H T"]:
        """Return the factor of every head at these positions, in ``dtype``."""
        logs = (positions + 1).to(dtype).log()
        logs = logs[None, None] if positions.dim() == 1 else logs[:, None]
        scaled = logs * self.weight.to(dtype)[:, None]
        return scaled if self.bias is None else scaled + self.bias.to(dtype)[:, None]

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return Placed(q_positions, k_positions, scale=self.factors(q_positions, dtype)[..., None])
