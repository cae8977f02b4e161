"""Transformer-XL's relative positional encoding, as used in speech encoders (Dai et al. 2019, arXiv 1901.02860,
section 3.3).

    score(q_i, k_j) = ((q + u_h)·k + (q + v_h)·W_h s(p_i − p_j))/√D

s(n) is the sinusoidal encoding of n, sin(n·θ_0), cos(n·θ_0), sin(n·θ_1) … in C columns; W maps s(n) to D numbers
per head; u and v are two learned vectors per head. The authors compute a table with one column per distance, and
then shift every row so that its columns correspond to keys. Their method needs a table whose length exactly
matches that of the sequence, and fails with padding and caches. Here, if positions count up by one, distances are
looked up in a table; if not, sin and cos of a distance are computed from sin and cos of the two positions. Scores
are therefore the same in packed sequences, with padding, and when decoding with a cache.
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.arguments import Size, even_from
from posenc.clock import Clock
from posenc.encodings.bias import Bias, SumBias, check_channels, consecutive
from posenc.encodings.encoding import Encoding
from posenc.encodings.looked_up import KeyTable, QueryTable
from posenc.encodings.placed import KeyPositions, Placed, Positions, insert_head_axis
from posenc.encodings.relative_table import Clip
from posenc.encodings.sinusoidal import Order, sinusoid_frequencies, sinusoids
from posenc.encodings.wide import product
from posenc.scaling.scaling import Base

Waves = tuple[Tensor, Tensor]
"""cos and sin of the sinusoids' angles at n positions, ``(n, pairs)`` or ``(B, n, pairs)``."""


class WaveBias(Bias):
    """A bias computed from products of queries with sinusoids of the distance, for any positions.

    W is the matrix that maps these sinusoids to D numbers per head. Each head has a learned vector v, which is
    added to its queries. The columns of W form pairs; pair c consists of a column for the sine and a column for
    the cosine of one frequency θ. Let ``a`` be the product of a query with the sine's column, and let ``b`` be
    the product of the same query with the cosine's column. For every query i and key j, the bias is

    Σ_c a·sin((i−j)θ) + b·cos((i−j)θ) = Σ_c (a·sin iθ + b·cos iθ)·cos jθ + (b·sin iθ − a·cos iθ)·sin jθ

    Args:
        maps: W's columns for sines and for cosines, ``(H, D, pairs)`` each.
        added: the vectors v of all heads, ``(H, 1, D)``.
        waves: cos and sin at the positions of the queries and of the keys.
        queries: q + v, times the scale of the scores; None until the queries are known.
    """

    indexed_by: ClassVar[dict[str, str]] = {
        "maps": "h··",
        "added": "h··",
        "queries": "bhq·",
        "q_waves": "bq·",
        "k_waves": "bk·",
    }

    def __init__(
        self,
        maps: tuple[Float[Tensor, "H D pairs"], Float[Tensor, "H D pairs"]],
        added: Float[Tensor, "H 1 D"],
        waves: tuple[Waves, Waves],
        queries: Float[Tensor, "B H T D"] | None = None,
    ) -> None:
        self.maps, self.added, (self.q_waves, self.k_waves), self.queries = maps, added, waves, queries
        self.heads = added.shape[0]

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        check_channels("q", q, self.added.shape[-1])
        return self.changed(queries=(q.to(torch.promote_types(q.dtype, torch.float32)) + self.added) * scale)

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "B H rows S"]:
        assert self.queries is not None
        a, b = (product(self.queries[:, :, first:last], part) for part in self.maps)
        cos, sin = (insert_head_axis(wave[..., first:last, :]) for wave in self.q_waves)
        key_waves = insert_head_axis(torch.cat(self.k_waves, -1)[..., start:keys, :])
        return product(torch.cat((a * sin + b * cos, b * sin - a * cos), -1), key_waves.mT)


@final
class TransformerXL(Encoding):
    """Adds (u·k + (q + v)·W s(distance))/√D to the scores; s is the sinusoidal encoding. Keys before the query and
    keys after the query get different biases.

    Args:
        width: C, columns of the sinusoids; even. In every released model, C equals the model's width.
        heads: H, query heads.
        head_dim: D, channels of a head.
        base: the base of the sinusoids; 10000 in the paper.
        order: the order of the columns: ``"interleaved"`` (conformers), or ``"block"``, all sines first
            (Transformer-XL, XLNet).

    ``weight`` is W, ``(H·D, C)``; ``u`` and ``v`` are ``(H, D)``. In checkpoints, W is linear_pos or
    relative_k_proj, u is pos_bias_u or bias_u, and v is pos_bias_v or bias_v. Every layer has its own parameters.
    """

    name: ClassVar[str] = "transformer-xl"
    acts_on = ("bias",)
    relative = True
    per_layer = True
    uses_queries = True

    def __init__(
        self,
        width: Annotated[int, even_from(2, "each sine needs its cosine")],
        heads: Size,
        head_dim: Size,
        *,
        base: Base = 10_000.0,
        order: Order = "interleaved",
    ) -> None:
        super().__init__()
        self.width, self.heads, self.head_dim, self.base = width, heads, head_dim, base
        self.order: Order = order
        self.clock = Clock(sinusoid_frequencies(width, base))
        self.weight = nn.Parameter(torch.empty(heads * head_dim, width))
        self.u, self.v = nn.Parameter(torch.empty(heads, head_dim)), nn.Parameter(torch.empty(heads, head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.reset_buffers()
        for parameter, size in ((self.weight, self.width), (self.u, self.head_dim), (self.v, self.head_dim)):
            nn.init.normal_(parameter, std=size**-0.5)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        weight = self.weight.to(dtype).unflatten(0, (self.heads, self.head_dim))
        u, v = self.u.to(dtype)[:, :, None], self.v.to(dtype)[:, None]
        of_keys = KeyTable(u, Clip(0, 0), self.heads, q_positions, k_positions)
        # A table costs one product with W per distance; without a table there is one product per query, which is
        # cheaper if there are fewer queries than channels. The count is tested last, so that a graph, which cannot
        # read positions, does not depend on the length.
        looked_up = consecutive(q_positions, k_positions) and q_positions.shape[-1] >= self.head_dim
        of_distance = self._looked_up if looked_up else self._multiplied
        bias = SumBias((of_keys, of_distance(weight, v, q_positions, k_positions)))
        return Placed(q_positions, k_positions, bias=bias)

    def _looked_up(self, weight: Tensor, v: Tensor, q_positions: Tensor, k_positions: Tensor) -> Bias:
        """Compute the bias from a table of all S + T − 1 distances."""
        last = k_positions.shape[-1] - 1
        distances = torch.arange(last, -q_positions.shape[-1], -1, device=k_positions.device)
        cos, sin = self.clock(distances, weight.dtype)
        table = product(weight, sinusoids(cos, sin, self.width, self.order).T)
        return QueryTable(table, Clip(last, q_positions.shape[-1]), self.heads, q_positions, k_positions, added=v)

    def _multiplied(self, weight: Tensor, v: Tensor, q_positions: Tensor, k_positions: Tensor) -> Bias:
        """Compute the bias from sinusoids of the queries' and keys' positions, counted from the first key, or
        from 0 if there are no keys.
        """
        start = k_positions[..., :1].sum(-1, keepdim=True)
        waves = self.clock(q_positions - start, weight.dtype), self.clock(k_positions - start, weight.dtype)
        pairs = weight.unflatten(-1, (-1, 2)) if self.order == "interleaved" else weight.unflatten(-1, (2, -1)).mT
        return WaveBias((pairs[..., 0], pairs[..., 1]), v, waves)
