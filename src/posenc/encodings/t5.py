"""T5's relative bias adds one learned number per head and distance bucket (Raffel et al. 2020, section 2.1;
1910.10683).

    score(q, k) = q·k·scale + T[h, bucket(p_k − p_q)]

In encoders (two-sided), half of the buckets are for keys behind the query and half for keys ahead. In decoders
(one-sided), all buckets are for keys behind; a key ahead, which causal attention hides, counts as distance 0 and is
in bucket 0. Each side has N buckets. The first e = N/2 buckets contain one distance each, and a distance n ≥ e is
in bucket e + ⌊ln(n/e)/ln(M/e)·(N−e)⌋, but at most N−1; M is ``max_distance``. The last bucket has no upper end, so
there is no largest distance.

T5 itself does not divide q·k by √D: its checkpoints need ``softmax_scale=1.0``. The authors' code takes the
logarithm in floating point; here the first distance of every bucket is computed in integers, so that every dtype
gets the same buckets.
"""

from bisect import bisect_left
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from posenc.arguments import Size, Std, as_scale, even_from
from posenc.encodings.looked_up import Rows
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.relative_table import RelativeTable
from posenc.errors import InvalidArgument


def first_distances(buckets: int, max_distance: int) -> list[int]:
    """Return the first distance in every bucket of one side: bucket j holds distances first[j] … first[j+1]−1."""
    e = buckets // 2
    side, power = range(e, max_distance), buckets - e
    # The smallest n with (n/e)^(N−e) ≥ (M/e)^j, in whole numbers.
    steps = (max_distance**j * e**power for j in range(power))
    logarithmic = [e + bisect_left(side, step, key=lambda n: n**power * e**j) for j, step in enumerate(steps)]
    return [*range(e), *logarithmic]


class Logarithmic(Rows):
    """T5's buckets: ``firsts`` contains the first distance in each bucket of one side, from the second bucket on.
    The buckets for keys ahead start at index ``ahead``. If ``ahead`` is None, all keys ahead are in the first
    bucket.
    """

    def __init__(self, firsts: Tensor, ahead: int | None) -> None:
        self.firsts, self.ahead = firsts, ahead

    def __call__(self, offsets: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        distance = (-offsets).clamp(min=0) if self.ahead is None else offsets.abs()
        bucket = torch.bucketize(distance, self.firsts, right=True)
        return bucket if self.ahead is None else bucket + (offsets > 0) * self.ahead


@final
class T5(RelativeTable):
    """Adds one learned number per head and distance bucket to the scores.

    Args:
        heads: H, query heads.
        buckets: the number of buckets, both sides together; even, at least 4. 32 in T5.
        max_distance: M; all distances of at least M share the last bucket. 128 in T5.
        two_sided: whether keys ahead have their own buckets, as in encoders. The bucket with index buckets/2 is
            then never used, as in T5: it would contain keys ahead at distance 0, but a key at distance 0 counts as
            a key behind.
        shared: whether all layers share one table (T5), instead of one table per layer (UMT5).
        std: the table is initialised from N(0, std²).
        softmax_scale: the factor of q·k; 1/√D by default, 1 in T5's checkpoints.
    """

    name: ClassVar[str] = "t5"

    firsts: Tensor

    def __init__(
        self,
        heads: Size,
        *,
        buckets: Annotated[int, even_from(4, "T5 has 32")] = 32,
        max_distance: int = 128,
        two_sided: bool = False,
        shared: bool = True,
        std: Std = 0.02,
        softmax_scale: float | None = None,
    ) -> None:
        super().__init__(heads=heads, shared=shared, std=std)
        side = buckets // 2 if two_sided else buckets
        if max_distance <= side // 2:
            raise InvalidArgument(
                f"max_distance={max_distance} must be above {side // 2}, because distances below {side // 2} have "
                "a bucket each, and the other buckets are for larger distances"
            )
        self.buckets, self.max_distance, self.two_sided = buckets, max_distance, two_sided
        self.softmax_scale = as_scale(softmax_scale, "softmax_scale")
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.register_constants(firsts=torch.tensor(first_distances(side, max_distance)[1:], device="cpu"))
        self.reset_parameters()

    @property
    def bucket(self) -> Rows:
        """The function that maps offsets, key position − query position, to buckets."""
        return Logarithmic(self.firsts, self.buckets // 2 if self.two_sided else None)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return self.added([self.bucket], [self.weight], q_positions, k_positions, dtype, bound=self.max_distance)
