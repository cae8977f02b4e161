"""Window tables have one learned number per head and per offset in rows and columns (Swin, Liu et al. 2021, arXiv
2103.14030; BEiT).

    score(q, k) = q·k/√D + T[h, Δ_y, Δ_x],   Δ_a = p_q,a − p_k,a,   |Δ_a| < size_a

Positions are the row and the column of a token in its window, ``(2, tokens)``; for video, positions can have more
axes. The table T is stored with (2·size_y − 1)(2·size_x − 1) rows and a column for every head; offset (Δ_y, Δ_x)
has row (Δ_y + size_y − 1)(2·size_x − 1) + Δ_x + size_x − 1, as in checkpoints. A position outside the window
raises an error, because T has no rows for it. BEiT's tables have three more rows for the class token, which has no
position in the window; BEiT's model code computes the bias of that token.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import nn

from posenc.arguments import Size, Std
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.places import check_size
from posenc.encodings.relative_table import Grid, RelativeTable


@final
class Window(RelativeTable):
    """Adds one learned number per head and multi-axis offset to the scores.

    Args:
        heads: H, query heads.
        size: the number of positions along every axis, rows before columns; (7, 7) in Swin, (14, 14) in BEiT.
        shared: whether all layers share one table; in released models, every layer has its own table.
        std: the table is initialised from N(0, std²).
    """

    name: ClassVar[str] = "window"

    def __init__(
        self, heads: Size, *, size: Sequence[int] = (64, 64), shared: bool = False, std: Std = 0.02
    ) -> None:
        super().__init__(heads=heads, shared=shared, std=std)
        self.size = check_size(size)
        self.places, self.axes, self.position_limit = self.size, len(self.size), min(self.size)
        self.row = Grid(self.size)
        self.weight = nn.Parameter(torch.empty(math.prod(2 * places - 1 for places in self.size), heads))
        self.reset_parameters()

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return self.added([self.row], [self.weight], q_positions, k_positions, dtype)
