"""In CoPE, positions count only the keys that matter to the query (Golovneva et al. 2024; 2405.18719).

    score(q_i, k_j) = s_ij + (1 − w)·q·E[⌊p_ij⌋] + w·q·E[⌊p_ij⌋ + 1]
    s_ij = q·k/√D,   p_ij = min(Σ_t σ(s_it), P − 1),   w = p_ij − ⌊p_ij⌋

The sum runs over the keys that the query sees, in the order of tokens, from key j to the query, both included. Each
key t counts as σ(s_it), its gate: a number between 0 and 1 that is larger if the key matters more to the query. E
has P rows of D numbers, which all heads share; in q·E, q is not divided by √D. Hidden keys count as zero, because
their score is −∞ before the gate. (Some implementations also count later keys, which leaks information from later
tokens.)

Counting needs all scores of a row, so fused kernels cannot be used; attention computes a few rows at a time. CoPE
uses only the order of tokens, and ignores the positions passed to ``at``.
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.arguments import Size, Std, at_least
from posenc.encodings.bias import Bias, check_channels, consecutive
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.relative_table import RelativeTable
from posenc.encodings.wide import linear
from posenc.errors import InvalidArgument


class CountedBias(Bias):
    """A bias that multiplies each query by the table row for the key's position. The position is a sum of gates; if
    it is not a whole number, the query's products with the rows below and above it are interpolated.

    Args:
        table: E, ``(P, D)``.
        heads: H.
        order: the keys' indices in their sequence; None until they are known.
        products: the product of each query with the P rows; None until queries are known.
    """

    indexed_by: ClassVar[dict[str, str]] = {"order": "bk", "products": "bhq·"}
    needs_scores = True

    def __init__(
        self,
        table: Float[Tensor, "P D"],
        heads: int,
        order: Tensor | None = None,
        products: Float[Tensor, "B H T P"] | None = None,
    ) -> None:
        self.table, self.heads, self.order, self.products = table, heads, order, products
        self.derive()

    def derive(self) -> None:
        self.consecutive = self.order is not None and consecutive(self.order, self.order)

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        return CountedBias(self.table, self.heads, k_order, self.products)

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        check_channels("q", q, self.table.shape[1])
        return CountedBias(self.table, self.heads, self.order, linear(q, self.table))

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "B H rows S"]:
        if scores is None or self.products is None or self.order is None:
            raise InvalidArgument(
                "this bias is computed from scores: call bias.ordered(q_order, k_order).meeting(q, k, scale) "
                "first, and pass the block's scores to rows()"
            )
        counted = self._counted(scores.sigmoid(), start, keys).clamp(max=len(self.table) - 1)
        below = counted.detach().floor().clamp(max=max(len(self.table) - 2, 0))
        products = self.products[:, :, first:last].to(counted.dtype)
        low = products.gather(-1, below.long())
        high = products.gather(-1, (below.long() + 1).clamp(max=len(self.table) - 1))
        return low + (counted - below) * (high - low)

    def _counted(self, gates: Float[Tensor, "B H rows near"], start: int, keys: int) -> Float[Tensor, "B H rows S"]:
        """Return, for each key, the sum of the gates of this key and of all later keys in the order of tokens."""
        assert self.order is not None
        if self.consecutive:
            return gates.flip(-1).cumsum(-1).flip(-1)
        place = self.order[..., start:keys].sort(dim=-1, descending=True).indices
        place = (place if place.dim() == 1 else place[:, None, None]).expand(gates.shape)
        sums = gates.gather(-1, place).cumsum(-1)
        return torch.empty_like(sums).scatter(-1, place, sums)


@final
class CoPE(RelativeTable):
    """Adds q·E[p] to the scores. E is a learned table; p sums σ(score) over the keys from this key to the query.

    Args:
        head_dim: D, channels of a head.
        heads: H, query heads.
        positions: P, the number of rows of E; every p of at least P − 1 uses the last row. 64 in the paper's
            language models.
        std: the table starts as N(0, std²).
    """

    name: ClassVar[str] = "cope"
    uses_queries = True

    def __init__(
        self,
        head_dim: Size,
        heads: Size,
        *,
        positions: Annotated[int, at_least(2, ", to count beyond zero")] = 64,
        std: Std = 0.02,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, shared=False, std=std)
        self.positions = positions
        self.weight = nn.Parameter(torch.empty(positions, head_dim))
        self.reset_parameters()

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return Placed(q_positions, k_positions, bias=CountedBias(self.weight.to(dtype), self.heads))
