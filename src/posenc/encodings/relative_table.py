"""Learned tables of relative positions. The offset between a query and a key picks a row of the table, which is
added to the score or multiplied by the query or the key.

The module of each encoding defines which row an offset picks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from posenc.encodings.encoding import Encoding
from posenc.encodings.looked_up import Rows
from posenc.encodings.offset_bias import OffsetBias
from posenc.encodings.placed import KeyPositions, Placed, Positions


class Clip(Rows):
    """One row for each offset from −``behind`` to ``ahead``. Offsets outside this range use the row of the nearer
    end.

    With ``sign=-1``, the offset is query position − key position.
    """

    def __init__(self, behind: int, ahead: int, sign: int = 1) -> None:
        self.behind, self.ahead, self.sign = behind, ahead, sign

    def __call__(self, offsets: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return (self.sign * offsets).clamp(-self.behind, self.ahead) + self.behind


class Grid(Rows):
    """One row for each offset (query − key) between two positions of a window. ``size`` is the number of positions
    along every axis of the window. The last axis varies fastest.
    """

    def __init__(self, size: tuple[int, ...]) -> None:
        self.size = size

    def __call__(self, offsets: Int[Tensor, "A *shape"]) -> Int[Tensor, "*shape"]:
        row = torch.zeros_like(offsets[0])
        for offset, places in zip(offsets, self.size, strict=True):
            row = row * (2 * places - 1) + places - 1 - offset
        return row


class TableBias(OffsetBias):
    """A bias that looks up the row of the offset in a table ``(rows, H)``. With one table per axis, the bias is the
    sum of one row from each table.
    """

    rows_of_tables: Sequence[Rows]
    tables: Sequence[Tensor]

    def values(self, offsets: Int[Tensor, "*shape"]) -> Float[Tensor, "H *shape2"]:
        if len(self.tables) == 1:
            return embedding(self.rows_of_tables[0](offsets), self.tables[0]).movedim(-1, 0)
        axes = zip(self.rows_of_tables, offsets, self.tables, strict=True)
        return torch.stack([embedding(row(along), table) for row, along, table in axes]).sum(0).movedim(-1, 0)


class RelativeTable(Encoding):
    """The base class of encodings with learned tables. Tables are initialised from N(0, std²). The given sizes,
    such as ``heads``, are stored as attributes.
    """

    acts_on = ("bias",)
    relative = True
    softmax_scale: float | None = None

    heads: int
    head_dim: int

    def __init__(self, *, std: float, shared: bool, **sizes: int) -> None:
        super().__init__()
        vars(self).update(sizes)
        self.std, self.per_layer = std, not shared

    def reset_parameters(self) -> None:
        self.reset_buffers()
        for table in self.parameters():
            nn.init.normal_(table, std=self.std)

    def added(
        self,
        rows: Sequence[Rows],
        tables: Sequence[Tensor],
        q_positions: Positions,
        k_positions: KeyPositions,
        dtype: torch.dtype,
        **settings: Any,
    ) -> Placed:
        """Return the placed encoding that adds to each score the sum of the rows that its offset picks."""
        bias = TableBias(
            self.heads,
            q_positions,
            k_positions,
            axes=self.axes,
            rows_of_tables=tuple(rows),
            tables=tuple(table.to(dtype) for table in tables),
            **settings,
        )
        return Placed(q_positions, k_positions, self.axes, bias=bias, softmax_scale=self.softmax_scale)
