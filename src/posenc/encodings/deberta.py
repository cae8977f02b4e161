"""DeBERTa's disentangled attention multiplies queries and keys by tables that are indexed by distance (He et al.
2021; 2006.03654).

    score(q_i, k_j) = (q·k + q·K[h, δ(p_i − p_j)] + k·Q[h, δ(p_i − p_j)])·scale

K and Q have a row of D numbers for each of 2N buckets. DeBERTa's checkpoints use the scale 1/√(tD), where t is the
number of terms: t = 3 (pass ``softmax_scale=(3 * head_dim) ** -0.5``), or t = 2 if ``pos_att_type`` has only one
entry; the table of the missing term is then zero. The function δ leaves distances up to m = N/2 unchanged and maps
any larger distance n to bucket m + ⌈ln(n/m)/ln((M−1)/m)·(m−1)⌉, where M is ``max_distance``. The bucket has the
sign of p_i − p_j (query − key, the opposite of T5). The row of the table is δ + N, limited to 0 … 2N − 1. Behind
the query, all buckets δ ≥ N − 1 therefore share the last row; ahead of the query, bucket δ = −(N − 1) has row 1,
and all buckets δ ≤ −N share row 0. The authors' code takes the logarithm in floating point; here the largest
distance of every bucket is computed in integers, so that every dtype gets the same buckets.

Checkpoints store one 2N × C table for all layers. Each layer computes K and Q from this table with its projections
of keys and queries, or with two additional projections. Here every layer stores K and Q: ``keys`` is the table
after the projection to keys, and ``queries`` is the table after the projection to queries. transformers confuses M
and N if there are fewer queries than keys; here the result depends only on positions.
"""

from bisect import bisect_right
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from posenc.arguments import Size, Std, as_scale, even_from
from posenc.encodings.bias import SumBias
from posenc.encodings.looked_up import KeyTable, QueryTable, Rows
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.relative_table import RelativeTable
from posenc.errors import InvalidArgument


def last_distances(middle: int, max_distance: int) -> list[int]:
    """Return the largest distance in each of the buckets m, m+1 … 2m−1, where m is ``middle``."""
    # The largest n with (n/m)^(m−1) ≤ ((M−1)/m)^j, in whole numbers.
    side, power = range(middle, max_distance + 1), middle - 1
    steps = ((max_distance - 1) ** j * middle**power for j in range(middle))
    return [
        middle - 1 + bisect_right(side, step, key=lambda n: n**power * middle**j) for j, step in enumerate(steps)
    ]


class Signed(Rows):
    """DeBERTa's buckets: ``lasts`` contains the largest distance in each bucket of one side, and ``buckets`` is
    the number of buckets per side.
    """

    def __init__(self, lasts: Tensor, buckets: int) -> None:
        self.lasts, self.buckets = lasts, buckets

    def __call__(self, offsets: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        size = torch.bucketize(offsets.abs(), self.lasts)
        return (self.buckets - offsets.sign() * size).clamp(max=2 * self.buckets - 1)


@final
class DeBERTa(RelativeTable):
    """Multiplies queries and keys by learned table rows, and adds these products to the scores. The offset between
    query and key picks the rows. Keys on both sides of the query get biases.

    Args:
        head_dim: D, channels of a head.
        heads: H, query heads.
        buckets: N, the number of buckets on each side; even, at least 4. 256 in DeBERTa-v3 (``position_buckets``).
        max_distance: M; on each side, distances of at least M−1 share a bucket. 512 in DeBERTa-v3
            (``max_relative_positions``).
        std: tables are initialised from N(0, std²).
        softmax_scale: the factor that multiplies all three terms; 1/√D by default, 1/√(3D) or 1/√(2D) in
            checkpoints.
    """

    name: ClassVar[str] = "deberta"
    uses_queries = True

    lasts: Tensor

    def __init__(
        self,
        head_dim: Size,
        heads: Size,
        *,
        buckets: Annotated[int, even_from(4, "DeBERTa-v3 has 256")] = 256,
        max_distance: int = 512,
        std: Std = 0.02,
        softmax_scale: float | None = None,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, shared=False, std=std)
        if max_distance - 1 <= buckets // 2:
            raise InvalidArgument(
                f"max_distance={max_distance} must be above {buckets // 2 + 1}, because distances up to "
                f"{buckets // 2} have a bucket each, and the other buckets are for larger distances"
            )
        self.buckets, self.max_distance = buckets, max_distance
        self.softmax_scale = as_scale(softmax_scale, "softmax_scale")
        self.keys = nn.Parameter(torch.empty(2 * buckets, heads * head_dim))
        self.queries = nn.Parameter(torch.empty(2 * buckets, heads * head_dim))
        lasts = [*range(buckets // 2), *last_distances(buckets // 2, max_distance)]
        self.register_constants(lasts=torch.tensor(lasts, device="cpu"))
        self.reset_parameters()

    @property
    def bucket(self) -> Rows:
        """The table row of every offset, key position − query position."""
        return Signed(self.lasts, self.buckets)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        keys, queries = (
            table.to(dtype).unflatten(1, (self.heads, self.head_dim)).permute(1, 2, 0)
            for table in (self.keys, self.queries)
        )
        at = self.bucket, self.heads, q_positions, k_positions
        bias = SumBias((QueryTable(keys, *at), KeyTable(queries, *at)))
        return Placed(q_positions, k_positions, bias=bias, softmax_scale=self.softmax_scale)
