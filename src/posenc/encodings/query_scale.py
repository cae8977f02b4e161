"""Multiplies scores by a factor that grows with the query's position, so that attention stays sharp over long
contexts (Llama 4, 2025).

    score(q, k) = factor(p_q)·q·k/√D

    rule         factor at position p
    llama4       1 + amount·ln(1 + ⌊(p+1)/floor⌋)
    ministral3   1 + amount·ln(1 + ⌊p/floor⌋)
    beam         (1 + (p+1)/floor)^amount
    inkling      1 + amount·ln max(1, (p+1)/floor)

In all released models except Qwen 1, the amount is 0.1. The floor is 8192 in Llama 4 (in layers without rotation),
the original length in Ministral 3 and Mistral 4, 2048 in Beam (in layers without rotation) and 128000 in Inkling
(in full-attention layers). Qwen 1's log n scaling is the ``inkling`` rule with amount 1/ln L and floor L, where L
is the trained length.

The first two rules differ by one position: with amount 0.1 and floor 8192, the factor at position 8191 is 1.0693147
under ``llama4`` and 1 under ``ministral3``. p is the position, which restarts in every packed document and does not
count padding. For Llama 4, transformers uses the token's index in the cache as p, which counts padding and does not
restart. Factors are computed in float64 (float32 on a device without float64) and rounded once. transformers rounds
every operation to float32, and rounds Ministral 3's factors to the model's dtype. This encoding only scales scores,
so stack it with the layer's encoding: ``stack(nope, query-scale)``. (The encoding ``inkling`` includes this
scaling.) For learned factors, see ``ssmax``.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import Size, such_that
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions, row_scale
from posenc.encodings.wide import widest

Rule = Literal["llama4", "ministral3", "beam", "inkling"]
Formula = Callable[[Int[Tensor, "*shape"], float, int, torch.dtype], Float[Tensor, "*shape"]]


def _stepped(p: Tensor, amount: float, floor: int, dtype: torch.dtype, first: int) -> Tensor:
    """Return 1 + amount·ln(1 + ⌊(p + first)/floor⌋) with exact integer division."""
    return 1.0 + amount * torch.log1p((p + first).div(floor, rounding_mode="floor").to(dtype))


def past_floor(p: Tensor, amount: float, floor: int, dtype: torch.dtype) -> Tensor:
    """Return 1 + amount·ln max(1, (p + 1)/floor)."""
    return 1.0 + amount * ((p + 1).to(dtype) / floor).clamp(min=1.0).log()


RULES: dict[str, Formula] = {
    "llama4": partial(_stepped, first=1),
    "ministral3": partial(_stepped, first=0),
    "beam": lambda p, amount, floor, dtype: torch.exp(amount * torch.log1p((p + 1).to(dtype) / floor)),
    "inkling": past_floor,
}


Amount = Annotated[float, such_that(lambda x: 0 <= x < inf, "be finite and not negative; released models use 0.1")]


@final
class QueryScale(Encoding):
    """Multiplies the scores of every query by a factor that depends on the query's position. Has no parameters.

    Args:
        rule: the formula for the factor, one of ``"llama4"``, ``"ministral3"``, ``"beam"`` and ``"inkling"``; the
            module's docstring lists the formulas.
        amount: the strength of the scaling; 0.1 in all released models except Qwen 1.
        floor: the number by which the formula divides positions: 8192 in Llama 4, the original length in
            Ministral 3.
    """

    name: ClassVar[str] = "query-scale"
    acts_on = ("scale",)
    relative = False

    def __init__(self, *, rule: Rule = "llama4", amount: Amount = 0.1, floor: Size = 8192) -> None:
        super().__init__()
        self.rule: Rule = rule
        self.amount, self.floor = amount, floor

    def factors(self, positions: Positions, dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape"]:
        """Return the factor for queries at these positions, rounded once."""
        return RULES[self.rule](positions, self.amount, self.floor, widest(positions.device)).to(dtype)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return Placed(q_positions, k_positions, scale=row_scale(self.factors(q_positions, dtype)))
