"""Shaw's relative keys multiply queries by one learned vector per offset (Shaw et al. 2018; 1803.02155).

    score(q, k) = q·(k + A[clip(p_k − p_q, −behind, ahead)])/√D

A has a row of D numbers for every offset from −behind to ahead; all heads share these rows. Offsets outside this
range use the row of the nearer end, so there is no largest distance. The paper also describes a table for values,
which is omitted here because no released model has such a table. The ``scale`` argument of attention also
multiplies q·A.
"""

from typing import ClassVar, final

import torch
from torch import nn

from posenc.arguments import Size, Std
from posenc.encodings.looked_up import QueryTable
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.relative_table import Clip, RelativeTable
from posenc.errors import InvalidArgument


@final
class Shaw(RelativeTable):
    """Adds q·A[offset]/√D to the scores. A is a learned table with one vector per offset.

    Args:
        head_dim: D, channels of a head.
        heads: H, query heads.
        behind: the largest distance with a row of its own, for keys before the query; 64 in wav2vec2-BERT
            (``left_max_position_embeddings``).
        ahead: the largest distance with a row of its own, for keys after the query; 8 in wav2vec2-BERT
            (``right_max_position_embeddings``).
        shared: whether all layers share one table; in released models, every layer has its own table.
        std: the table is initialised from N(0, std²).
    """

    name: ClassVar[str] = "shaw"
    uses_queries = True

    def __init__(
        self,
        head_dim: Size,
        heads: Size,
        *,
        behind: int = 64,
        ahead: int = 8,
        shared: bool = False,
        std: Std = 0.02,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, shared=shared, std=std)
        if behind < 0 or ahead < 0 or behind + ahead < 1:
            raise InvalidArgument(
                f"behind={behind} and ahead={ahead} must be at least 0, and at least one must be above 0; "
                "wav2vec2-BERT has 64 and 8"
            )
        self.behind, self.ahead, self.row = behind, ahead, Clip(behind, ahead)
        self.weight = nn.Parameter(torch.empty(behind + ahead + 1, head_dim))
        self.reset_parameters()

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        table = self.weight.to(dtype).T[None]
        return Placed(
            q_positions, k_positions, bias=QueryTable(table, self.row, self.heads, q_positions, k_positions)
        )
