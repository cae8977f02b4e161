"""Window tables: a learned number per head and offset along two axes (Swin, Liu et al. 2021; BEiT; 2103.14030).

    score(q, k) = q·k/√D + T[h, Δ_y, Δ_x],   Δ_a = p_q,a − p_k,a,   |Δ_a| < size_a

Positions are the row and the column of a token in its window, ``(2, T)``; more axes, as of video, are taken alike.
T has (2·size_y − 1)(2·size_x − 1) rows; offset (Δ_y, Δ_x) has row (Δ_y + size_y − 1)(2·size_x − 1) + Δ_x + size_x
− 1, as in checkpoints. A place outside the window has no row, and is an error. BEiT's tables hold three rows more,
for the class token, which has no place; that token's scores are its model's business.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.arguments import at_least_one
from posenc.encodings.bias import OffsetBias
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.places import check_places, check_size


@final
class Window(Encoding):
    """Adds a learned number to the scores, by head and offset along every axis.

    Args:
        heads: H, query heads.
        size: places along every axis, rows before columns; (7, 7) in Swin, (14, 14) in BEiT.
        shared: whether all layers read one table; in models in use every layer has its own.
        std: the table starts as N(0, std²).
    """

    name: ClassVar[str] = "window"
    acts_on = ("bias",)
    relative = True
    bias_reads = ("size",)

    def __init__(
        self, heads: int, *, size: Sequence[int] = (64, 64), shared: bool = False, std: float = 0.02
    ) -> None:
        super().__init__()
        at_least_one(heads=heads)
        self.heads, self.size, self.std = heads, check_size(size), std
        self.per_layer, self.axes, self.position_limit = not shared, len(self.size), min(self.size)
        self.weight = nn.Parameter(torch.empty(math.prod(2 * places - 1 for places in self.size), heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.std)

    def check(self, positions: Positions, name: str) -> None:
        check_places(positions, name, self.size)

    def row(self, offsets: Int[Tensor, "A *shape"]) -> Int[Tensor, "*shape"]:
        """The row of every offset, key position − query position along each axis."""
        row = torch.zeros_like(offsets[0])
        for offset, places in zip(offsets, self.size, strict=True):
            row = row * (2 * places - 1) + places - 1 - offset
        return row

    def values(self, offsets: Int[Tensor, "A *shape"], table: Tensor) -> Float[Tensor, "H *shape"]:
        """The table's number for every offset, heads in front."""
        return nn.functional.embedding(self.row(offsets), table).movedim(-1, 0)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        table = self.weight.to(torch.promote_types(dtype, torch.float32))
        bias = OffsetBias(self.values, self.heads, q_positions, k_positions, (table,), self.axes)
        return Placed(q_positions, k_positions, self.axes, bias=bias)
