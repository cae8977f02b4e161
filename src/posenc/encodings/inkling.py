"""Inkling's banded bias depends on the query's token and on the distance, for distances below ``extent`` (Thinking
Machines 2026; no paper yet).

    score(q_i, k_j) = q·k/√D + r_i,h·P[:, n]  for 0 ≤ n < extent, and q·k/√D elsewhere;  r_i,h = W_h x_i

n is p_i − p_j, x_i is the input of attention at token i, and r has ``basis`` coefficients per head. Each
coefficient multiplies one row of P, which is a learned curve over distance; all heads share the curves. The model
has no rotation. In layers without a window, for which ``log_floor`` N is set, scores and bias are multiplied by 1
+ log_amount·ln max(1, (p_i + 1)/N).

The model's own code computes the bias of all queries and keys in one step; here only r is stored, and the bias is
computed for a few rows at a time. A cache only needs to store keys and values.

Inkling 2 multiplies each coefficient in r by a learned factor of its own. It then limits the norm |r| to ``clip``
by multiplying r by min(1, clip/(|r| + 10⁻⁶)).
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from posenc.arguments import Size, Std, at_least, positive
from posenc.encodings.encoding import Encoding
from posenc.encodings.looked_up import QueryTable
from posenc.encodings.placed import ContentState, KeyPositions, Placed, Positions, row_scale
from posenc.encodings.query_scale import Amount, past_floor
from posenc.encodings.relative_table import Clip
from posenc.encodings.wide import linear


class PlacedInkling(Placed):
    """The positions of queries and keys and, after ``with_content``, the coefficients r of the curves."""

    awaits_content = True

    def __init__(self, inkling: "Inkling", table: QueryTable, scale: Tensor | None) -> None:
        super().__init__(table.q_positions, table.k_positions, scale=scale)
        self.inkling, self.table = inkling, table

    def with_content(
        self, x: Float[Tensor, "B T C"], state: ContentState | None = None
    ) -> tuple[Placed, ContentState | None]:
        self.check_embeddings(x, self.inkling.width)
        coefficients = self.inkling.clipped(linear(x, self.inkling.weight).unflatten(-1, (self.inkling.heads, -1)))
        coefficients = coefficients.transpose(1, 2)
        bias = self.table.changed(queries=coefficients if self.scale is None else coefficients * self.scale)
        return self.changed(bias=bias, awaits_content=False), state


@final
class Inkling(Encoding):
    """Adds a bias to the scores for distances below ``extent``. The bias is computed from the query's token. For
    causal models.

    Args:
        width: C, channels of the input of attention.
        heads: H, query heads.
        extent: the number of distances with a bias: 1024 in Inkling's full-attention layers, the window's width in
            its other layers.
        basis: the number of curves that a head combines; 16 in Inkling (``d_rel``).
        log_floor: the position beyond which rows of scores are scaled (``log_scaling_n_floor``); None for no
            scaling.
        log_amount: the strength of that scaling; 0.1 in Inkling (``log_scaling_alpha``).
        clip: the largest norm of a head's coefficients; 8 in Inkling 2 (``rel_l2_clip_threshold``). None, as in
            Inkling, for no limit.
        std: curves are initialised from N(0, std²).
    """

    name: ClassVar[str] = "inkling"
    needs_content = True
    causal = True
    per_layer = True

    def __init__(
        self,
        width: Size,
        heads: Size,
        *,
        extent: Size = 1024,
        basis: Size = 16,
        log_floor: Annotated[int | None, at_least(1, ", or None for no scaling")] = None,
        log_amount: Amount = 0.1,
        clip: Annotated[float | None, positive("Inkling 2 uses 8")] = None,
        std: Std = 0.02,
    ) -> None:
        super().__init__()
        self.width, self.heads, self.extent, self.basis, self.std = width, heads, extent, basis, std
        self.log_floor, self.log_amount, self.clip = log_floor, log_amount, clip
        self.acts_on: tuple[str, ...] = ("bias",) if log_floor is None else ("bias", "scale")
        self.relative = log_floor is None
        self.weight = nn.Parameter(torch.empty(heads * basis, width))
        self.curves = nn.Parameter(torch.empty(basis, extent))
        self.lengths = None if clip is None else nn.Parameter(torch.empty(heads, basis))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.width**-0.5)
        nn.init.normal_(self.curves, std=self.std)
        if self.lengths is not None:
            nn.init.ones_(self.lengths)

    def clipped(self, coefficients: Float[Tensor, "B T H basis"]) -> Float[Tensor, "B T H basis"]:
        """If ``clip`` is set, multiply each coefficient by its learned factor, and limit the norm of each head's
        vector of coefficients to ``clip``.
        """
        if self.lengths is None or self.clip is None:
            return coefficients
        coefficients = coefficients * self.lengths.to(coefficients.dtype)
        return coefficients * (
            self.clip / (torch.linalg.vector_norm(coefficients, dim=-1, keepdim=True) + 1e-6)
        ).clamp(max=1.0)

    def factors(self, positions: Positions, dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape"]:
        """Return the factor that multiplies all scores of a query, for each of these query positions. ``log_floor``
        must be set.
        """
        return past_floor(positions, self.log_amount, self.log_floor or 1, dtype)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        curves = pad(self.curves.to(dtype), (1, 1))[None]  # zeros for keys ahead and for keys beyond the extent
        table = QueryTable(curves, Clip(1, self.extent, sign=-1), self.heads, q_positions, k_positions)
        scale = None if self.log_floor is None else row_scale(self.factors(q_positions, dtype))
        return PlacedInkling(self, table, scale)
