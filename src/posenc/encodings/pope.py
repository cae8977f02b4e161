"""PoPE (polar position embedding) turns each channel into a 2-D vector. The channel's content sets the length of
this vector, and the token's position sets its angle (Gopalakrishnan et al. 2025).

    q̃_c = softplus(q_c)·e^{i(p·θ_c − δ_hc)},   k̃_c = softplus(k_c)·e^{i·p·θ_c},   θ_c = base^(−c/D),  c = 0 … D−1
    score(q, k) = Σ_c softplus(q_c)·softplus(k_c)·cos((p_k − p_q)·θ_c + δ_hc) / √D

(arXiv 2509.10534, section 3). In RoPE, the content of a pair of channels shifts the pair's angle. In PoPE, every
channel has its own frequency, and content never changes the angle. Queries and keys are returned as real parts
followed by imaginary parts, so they have 2D channels and the key cache doubles in size. Scores are still divided
by √D. δ is learned for every query head and channel. The authors apply δ to keys; here it is applied to queries,
so that query heads can still share keys. The authors clamp δ to [−2π, 0] in every forward pass, which zeroes its
gradient outside this range. This class does not clamp δ, so clamp the δ of a checkpoint once, when you load it.
"""

import math
from typing import ClassVar, Literal, cast, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from posenc.arguments import Size
from posenc.clock import Clock, Phases
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Keys, Placed, Positions, Queries
from posenc.encodings.rotation import PlacedTables
from posenc.errors import InvalidArgument
from posenc.scaling.default import Default
from posenc.scaling.proportional import Proportional
from posenc.scaling.scaling import Base, Scaling, fixed

SMALLEST = 1e-30
"""The smallest length of a channel's vector in ``unrotate``. Lengths that rounding has made smaller are set to this
value.
"""

Start = Literal["zero", "uniform"]


class PlacedPoPE(PlacedTables):
    """cos and sin of every channel's angle, at the positions of the queries and of the keys."""

    def __init__(self, pope: "PoPE", q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> None:
        super().__init__(pope, q_positions, k_positions, dtype)
        self.added = pope.rotary_dim
        self.delta = pope.weight.clone()  # a copy, so that later changes to the parameter do not affect it

    def slice_heads(self, first: int, last: int) -> Placed:
        sliced = cast(PlacedPoPE, super().slice_heads(first, last))
        sliced.delta = self.delta[first:last]
        return sliced

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        """Rotate queries and keys. The results have ``rotary_dim`` more channels than the inputs."""
        self.check_current()
        pope, tables = self.encoding, self.key_tables(q, k)
        if q is not None and q.shape[1] != len(self.delta):
            raise InvalidArgument(
                f"q has {q.shape[1]} heads but the encoding has angles for {len(self.delta)} heads; on a "
                "tensor-parallel rank, use placed.slice_heads(first, last)"
            )
        wide_q = None if q is None else pope.polar(q, *self.q_tables, self.delta)
        return cast(tuple[Queries, Keys], (wide_q, None if k is None else pope.polar(k, *tables)))

    def unrotate(self, k: Float[Tensor, "B K S E"]) -> Float[Tensor, "B K S D"]:
        """Return the keys before rotation, ln(e^μ − 1); μ is the length of a channel's vector."""
        n = self.added
        self.check_heads("k", k, self.q_positions, self.encoding.head_dim + n)
        cos, sin = (table / self.encoding.clock.frequencies.attention_factor**2 for table in self.q_tables)
        size = (k[..., :n] * cos + k[..., n : 2 * n] * sin).clamp(min=SMALLEST)
        return torch.cat((size + (-torch.expm1(-size)).log(), k[..., 2 * n :]), dim=-1)


@final
class PoPE(Encoding):
    """Converts every channel of q and k to a two-component vector. The vector's length is the softplus of the
    channel, and its angle is set by the position. Queries and keys become wider.

    Args:
        head_dim: D, channels of one head, before q and k become wider.
        heads: H, query heads.
        base: the base of the D frequencies; 10000 in the paper.
        rotary_dim: the number of channels that are converted, at most head_dim; the rest pass through unchanged.
            Default: all.
        start: how δ, the learned angle per head and channel, is initialised: ``"zero"``, or ``"uniform"`` in
            −2π … 0. The authors' code has both.
        scaling: the rule that scales the frequencies; ``Default()`` does not change them.
        phases: ``"exact"``, or ``"float32"`` to reproduce the angles of the authors' code.
    """

    name: ClassVar[str] = "pope"
    acts_on = ("queries_keys",)
    relative = True
    not_rerotatable = ""
    isometric = False
    per_layer = True

    def __init__(
        self,
        head_dim: Size,
        heads: Size,
        *,
        base: Base = 10_000.0,
        rotary_dim: int | None = None,
        start: Start = "zero",
        scaling: Scaling | None = None,
        phases: Phases = "exact",
    ) -> None:
        super().__init__()
        self.head_dim, self.heads, self.base = head_dim, heads, base
        self.rotary_dim = self.head_dim if rotary_dim is None else rotary_dim
        if not 1 <= self.rotary_dim <= head_dim:
            raise InvalidArgument(f"rotary_dim={self.rotary_dim} must be between 1 and head_dim={head_dim}")
        self.start: Start = start
        self.scaling = Default() if scaling is None else fixed(scaling)
        self.clock = Clock(self.scaling.frequencies(2 * self.rotary_dim, self.base), phases)
        self.weight = nn.Parameter(torch.empty(heads, self.rotary_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.reset_buffers()
        if self.start == "zero":
            nn.init.zeros_(self.weight)
        else:
            nn.init.uniform_(self.weight, -2 * math.pi, 0.0)

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        """Return the encoding with the same learned angles δ and with frequencies from this scaling. With None, all
        frequencies are zero, and scores no longer depend on positions.
        """
        other = self.with_settings(scaling=scaling or Proportional(0.0), phases=phases or self.clock.phases)
        other.weight = self.weight
        return other

    def tables(self, positions: Positions, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cos and sin of every channel's angle at these positions."""
        return self.clock(positions, dtype, self.clock.frequencies.attention_factor)

    def polar(
        self, x: Float[Tensor, "B H T D"], cos: Tensor, sin: Tensor, delta: Float[Tensor, "H c"] | None = None
    ) -> Float[Tensor, "B H T E"]:
        """Return softplus(x)·e^{i(φ − δ)} as real parts followed by imaginary parts, rounded once to x's dtype.

        φ is the angle whose cosine and sine are given.
        """
        size = softplus(x[..., : self.rotary_dim].to(torch.promote_types(x.dtype, cos.dtype)))
        if delta is not None:
            along, across = (part(delta.to(size.dtype))[:, None] for part in (torch.cos, torch.sin))
            cos, sin = cos * along + sin * across, sin * along - cos * across
        rotated = (size.unsqueeze(-2) * torch.stack((cos, sin), dim=-2)).flatten(-2).to(x.dtype)
        tail = x[..., self.rotary_dim :]
        return torch.cat((rotated, tail), dim=-1) if tail.shape[-1] else rotated

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedPoPE(self, q_positions, k_positions, dtype)
