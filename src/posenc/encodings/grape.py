"""GRAPE-A: ALiBi whose slopes the query and the key open and close (additive GRAPE, ICLR 2026; Cable is its kin).

    score(q_i, k_j) = q·k/√D − m_h·n·(g(q_i) + g'(k_j))
    g(q) = softplus(a_h·q + α_h),   g'(k) = softplus(b_h·k + β_h)

n is |p_k − p_q| and m_h ALiBi's slope. ``gates`` says whose gate there is: the query's, the key's, or both. The
bias is made from two numbers a token, a block of rows at a time: as a product of channels of queries and of keys it
would be the difference of two large numbers.

Gates read queries and keys as they enter attention, so that a cache keeps nothing more than its keys.
"""

import math
from typing import ClassVar, Literal, final, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from posenc.arguments import at_least_one, one_of
from posenc.encodings.alibi import slopes
from posenc.encodings.bias import Bias, check_channels, heads_second, offsets
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.wide import product
from posenc.errors import InvalidArgument
from posenc.kernels.attention.softmax import for_every_head

Gates = Literal["query", "key", "both"]
Read = tuple[Float[Tensor, "H D 1"], Float[Tensor, "H 1 1"]]
"""A vector a head, and what is added to its product."""


class GatedSlopes(Bias):
    """−m·n·(g_i + g'_j).

    Args:
        slopes: m of every head.
        reads: a and α of queries, b and β of keys; None for a side without a gate.
        gates: g ``(B, H, T, 1)`` and g' ``(B, H, S, 1)``; None until queries and keys are known.
    """

    made_of = ("of_q", "of_k")
    indexed_by: ClassVar[dict[str, str]] = {
        "slopes": "h",
        "reads": "h··",
        "of_q": "bhq·",
        "of_k": "bhk·",
        "q_positions": "bq",
        "k_positions": "bk",
    }

    def __init__(
        self,
        slopes: Float[Tensor, " H"],
        reads: tuple[Read | None, Read | None],
        q_positions: Tensor,
        k_positions: Tensor,
        gates: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> None:
        self.slopes, self.heads, self.reads = slopes, len(slopes), reads
        self.of_q, self.of_k = gates
        self.q_positions, self.k_positions = q_positions, k_positions

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        for name, x, read in (("q", q, self.reads[0]), ("k", k, self.reads[1])):
            if read is not None:
                check_channels(name, x, read[0].shape[1])
        of_q, of_k = (
            None if read is None else softplus(product(x, read[0]) + read[1])
            for x, read in zip((q, for_every_head(k, q.shape[1])), self.reads, strict=True)
        )
        return GatedSlopes(self.slopes, self.reads, self.q_positions, self.k_positions, (of_q, of_k))

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "B H rows S"]:
        distance = offsets(self.q_positions, self.k_positions, first, last, keys, start).abs().to(self.slopes.dtype)
        slopes = self.slopes.view(-1, *[1] * distance.dim())
        rates = [] if self.of_q is None else [self.of_q[:, :, first:last]]
        rates += [] if self.of_k is None else [self.of_k[:, :, start:keys].mT]
        return -heads_second(slopes * distance) * (rates[0] if len(rates) == 1 else rates[0] + rates[1])


@final
class Grape(Encoding):
    """Adds −m_h·|distance| to the scores, times gates that are read off the query and the key.

    Args:
        head_dim: D, channels of a head.
        heads: H, query heads; any count, slopes as in ALiBi.
        gates: ``"query"``, ``"key"`` or ``"both"``.
        start: what gates of a fresh model are: with 1/2 on both sides (default) it starts near ALiBi.
    """

    name: ClassVar[str] = "grape-a"
    acts_on = ("bias",)
    relative = True
    per_layer = True
    uses_queries = True
    slope_bits: Tensor

    def __init__(self, head_dim: int, heads: int, *, gates: Gates = "both", start: float = 0.5) -> None:
        super().__init__()
        at_least_one(head_dim=head_dim, heads=heads)
        one_of("gates", gates, get_args(Gates))
        if not 0 < start < float("inf"):
            raise InvalidArgument(f"start={start} must be a finite number above 0; 1/2 a side starts near ALiBi")
        self.head_dim, self.heads, self.gates, self.start = head_dim, heads, gates, start
        self.sides = {"query": ("q",), "key": ("k",), "both": ("q", "k")}[gates]
        self.register_constants(
            slope_bits=torch.tensor(slopes(heads), dtype=torch.float64, device="cpu").view(torch.int64)
        )
        self.weight = nn.Parameter(torch.empty(len(self.sides), heads, head_dim))
        self.bias = nn.Parameter(torch.empty(len(self.sides), heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.reset_buffers()
        nn.init.normal_(self.weight, std=0.1 * self.head_dim**-0.5)
        nn.init.constant_(self.bias, math.log(math.expm1(self.start)))

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        wide = torch.promote_types(dtype, torch.float32)
        both: dict[str, Read] = {
            side: (weight[:, :, None], bias[:, None, None])
            for side, weight, bias in zip(self.sides, self.weight.to(wide), self.bias.to(wide), strict=True)
        }
        of_heads = self.slope_bits.view(torch.float64).to(wide)
        reads = both.get("q"), both.get("k")
        return Placed(q_positions, k_positions, bias=GatedSlopes(of_heads, reads, q_positions, k_positions))
