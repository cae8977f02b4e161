"""Decomposed tables: each axis has a table, the offset along the axis picks a row, and queries are multiplied by
these rows (MViTv2, Li et al. 2022, section 4.1; 2112.01526; also used in ViTDet and SAM).

    score(q, k) = q·k/√D + Σ_a q·R_a[Δ_a],   Δ_a = p_q,a − p_k,a,   |Δ_a| < size_a

R_a has 2·size_a − 1 rows of D numbers, which all heads share; offset Δ picks row Δ + size_a − 1. As in the authors'
code, the query is not divided by √D before this product. A table with one number per pair of offsets, as in Swin,
has (2·size_y − 1)(2·size_x − 1) numbers per head; these tables have (2·size_y + 2·size_x − 2)·D numbers for all
heads.
"""

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import nn

from posenc.arguments import Size, Std
from posenc.encodings.bias import SumBias
from posenc.encodings.looked_up import QueryTable
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.places import check_size, holds
from posenc.encodings.relative_table import Clip, RelativeTable
from posenc.errors import InvalidArgument


@final
class Decomposed(RelativeTable):
    """Adds q·R_y[Δ_y] + q·R_x[Δ_x] to the scores. R_y and R_x are learned tables; Δ_y and Δ_x are the differences
    query position − key position along y and x.

    Args:
        head_dim: D, channels of a head.
        heads: H, query heads.
        size: the number of positions along every axis, rows before columns; (64, 64) in SAM's layers with global
            attention, (14, 14) in its windows.
        shared: whether all layers share the same tables; in released models, every layer has its own tables.
        std: tables are initialised from N(0, std²).

    ``tables`` holds R_y and R_x, which checkpoints call rel_pos_h and rel_pos_w.
    """

    name: ClassVar[str] = "decomposed"
    uses_queries = True

    def __init__(
        self,
        head_dim: Size,
        heads: Size,
        *,
        size: Sequence[int] = (64, 64),
        shared: bool = False,
        std: Std = 0.02,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, shared=shared, std=std)
        self.size = check_size(size)
        self.places, self.axes, self.position_limit = self.size, len(self.size), min(self.size)
        self.tables = nn.ParameterList(torch.empty(2 * places - 1, head_dim) for places in self.size)
        self.reset_parameters()

    def resized(self, *size: int) -> "Decomposed":
        """Return the encoding for another size. It has the same parameters as this encoding, and interpolates them
        whenever it is placed: linearly, with ``align_corners=False``, as in SAM.
        """
        with torch.device("meta"):
            other = Decomposed(**{**self.settings, "size": size})
        if len(other.size) != len(self.size):
            raise InvalidArgument(
                f"size={other.size} must have {len(self.size)} numbers, one per axis of the tables"
            )
        other.tables = self.tables
        return other

    def enlarged(self, *places: int) -> "Decomposed":
        return self if holds(self.size, places) else self.resized(*places)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        parts = []
        for axis, (table, places) in enumerate(zip(self.tables, self.size, strict=True)):
            row, at = Clip(places - 1, places - 1, sign=-1), (q_positions[axis], k_positions[axis])
            rows = table.to(dtype).T[None]
            if len(table) != 2 * places - 1:
                rows = nn.functional.interpolate(rows, size=2 * places - 1, mode="linear")
            parts.append(QueryTable(rows, row, self.heads, *at, scaled=False))
        return Placed(q_positions, k_positions, self.axes, bias=SumBias(tuple(parts)))
