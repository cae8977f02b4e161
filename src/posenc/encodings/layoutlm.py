"""LayoutLM's relative bias uses T5's buckets along the text and along the page (Xu et al. 2021; 2012.14740).

    score(q, k) = q·k/√D + Σ_a T_a[h, bucket_a(p_k,a − p_q,a)]

Axis 0 is the token's index in the text; axes 1 and 2 are the x of the left edge and the y of the bottom edge of
its box, as integers (the page is 1000 wide and 1000 high). Every axis has its own table and buckets, two-sided as
in T5's encoders. All distances of at least ``max_distance`` share the last bucket, so any distance is allowed. As
in LayoutLMv2, the bias is added to scores that are already divided by √D. LayoutLMv3 also divides the bias by √D,
so multiply the tables of LayoutLMv3 by 1/√D.
"""

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import nn

from posenc.arguments import Size, Std
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.relative_table import RelativeTable
from posenc.encodings.t5 import T5
from posenc.errors import InvalidArgument


@final
class LayoutLM(RelativeTable):
    """Adds one learned number per axis, head and distance bucket to the scores.

    Args:
        heads: H, query heads.
        buckets: the number of buckets for every axis, both sides together; 32, 64, 64 in LayoutLM
            (``rel_pos_bins``, ``rel_2d_pos_bins``).
        max_distance: for every axis, the smallest distance in the last bucket; 128, 256, 256 in LayoutLM
            (``max_rel_pos``, ``max_rel_2d_pos``).
        shared: whether all layers share the same tables, as in LayoutLM, instead of one set of tables per layer.
        std: tables are initialised from N(0, std²).
    """

    name: ClassVar[str] = "layoutlm"

    def __init__(
        self,
        heads: Size,
        *,
        buckets: Sequence[int] = (32, 64, 64),
        max_distance: Sequence[int] = (128, 256, 256),
        shared: bool = True,
        std: Std = 0.02,
    ) -> None:
        super().__init__(heads=heads, shared=shared, std=std)
        if len(buckets) != len(max_distance) or len(buckets) < 2:
            raise InvalidArgument(
                f"buckets={tuple(buckets)} and max_distance={tuple(max_distance)} must have one number per axis, "
                "for at least two axes; LayoutLM has three axes"
            )
        self.axes = len(buckets)
        self.tables = nn.ModuleList(
            T5(heads, buckets=n, max_distance=furthest, two_sided=True, std=std)
            for n, furthest in zip(buckets, max_distance, strict=True)
        )

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        axes: list[T5] = list(self.tables)  # type: ignore[arg-type]
        rows, tables = [axis.bucket for axis in axes], [axis.weight for axis in axes]
        return self.added(rows, tables, q_positions, k_positions, dtype)
