"""Scores scaled by the query's position, so that attention does not thin out over long contexts (Llama 4, 2025).

    score(q, k) = factor(p_q)·q·k/√D

    rule         factor at position p
    llama4       1 + amount·ln(1 + ⌊(p+1)/floor⌋)     Llama 4: amount .1, floor 8192, in its layers without rotation
    ministral3   1 + amount·ln(1 + ⌊p/floor⌋)         Ministral 3, Mistral 4: amount .1, floor = original length

The two differ by one: at 8191 the first has 1.0693147 and the second 1. p is the position, so packing starts it
anew and padding does not count; transformers takes the length of the cache for Llama 4. Computed in float32
whatever the model's type. Rotation, masks and biases are left alone: stack it on what a layer has, ``stack(nope,
query-scale)``.
"""

from typing import ClassVar, Literal, final, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions, row_scale
from posenc.errors import InvalidArgument, UnknownName

Rule = Literal["llama4", "ministral3"]
STARTS: dict[Rule, int] = {"llama4": 1, "ministral3": 0}
"""What is added to the position before it is divided."""


@final
class QueryScale(Encoding):
    """Multiplies the scores of every query by a factor of its position; no parameters.

    Args:
        rule: ``"llama4"`` or ``"ministral3"``.
        amount: how much a doubling of the context adds, divided by ln 2; 0.1 in both.
        floor: positions per step; 8192 in Llama 4, the original length in Ministral 3.
    """

    name: ClassVar[str] = "query-scale"
    doors = ("scale",)
    relative = False

    def __init__(self, *, rule: Rule = "llama4", amount: float = 0.1, floor: int = 8192) -> None:
        super().__init__()
        if rule not in get_args(Rule):
            raise UnknownName("rule", rule, get_args(Rule))
        if type(floor) is not int or floor < 1:
            raise InvalidArgument(
                f"floor={floor!r} must be a whole number of positions, at least 1; Llama 4 has 8192"
            )
        if not 0 <= amount < float("inf"):
            raise InvalidArgument(f"amount={amount} must be finite and not negative; Llama 4 has 0.1")
        self.rule: Rule = rule
        self.amount, self.floor = amount, floor

    def factors(self, positions: Positions, dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape"]:
        """The factor at these positions."""
        steps = (positions + STARTS[self.rule]).div(self.floor, rounding_mode="floor")
        return (1.0 + self.amount * torch.log1p(steps.to(torch.promote_types(dtype, torch.float32)))).to(dtype)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return Placed(q_positions, k_positions, scale=row_scale(self.factors(q_positions, dtype)))

    def extra_repr(self) -> str:
        return f"rule={self.rule!r}, amount={self.amount:g}, floor={self.floor}"
