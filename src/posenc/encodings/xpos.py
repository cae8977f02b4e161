"""xPos rotates pairs like RoPE and also shrinks each pair's part of the score with distance (Sun et al. 2023, arXiv
2212.10554). The faster a pair rotates, the sooner its part shrinks.

    score(q, k) = Σ_i ζ_i^{(p_q − p_k)/s}·Re(q_i·conj(k_i)·e^{i(p_q − p_k)θ_i}) / √D
    ζ_i = (2i/D + γ)/(1 + γ),   θ_i = base^(−2i/D),   s = 512,  γ = 0.4

(section 2.2). The factors ζ damp the oscillation of the scores of distant keys. As in the authors' code, ``rotate``
multiplies queries by ζ^{p/s} and keys by ζ^{−p/s}. The authors count p from the middle of the text, so a cached key
becomes stale when the text grows; here p is the position. As p grows, queries shrink and keys grow. The factors of
queries and keys must stay within e^±64, so positions are limited. The scores of keys ahead of their query would
grow with distance, so the model must be causal. For LeX, the authors' windowed attention at test time, use a
``Mask`` with a window.
"""

import math
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import at_least, positive
from posenc.clock import Phases
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Keys, Placed, Positions, Queries, insert_head_axis
from posenc.encodings.rotary import Pairing, Rotary
from posenc.encodings.rotation import PlacedRotation, Rotation
from posenc.encodings.wide import attended_dtype, widest
from posenc.errors import InvalidArgument
from posenc.kernels.memory import floats
from posenc.kernels.rotary import Tables
from posenc.positions import LIMIT
from posenc.scaling.proportional import Proportional
from posenc.scaling.scaling import Scaling

LARGEST = 64.0
"""The largest x for which queries and keys are multiplied by e^±x. float32 and bfloat16 can represent e^±87. The
remaining factor e^23 = 1e10 is a margin against overflow and underflow in gradients and in products of queries with
hidden keys far ahead.
"""


class PlacedXPos(PlacedRotation):
    """The tables of cos and sin, multiplied by xPos's factors: ζ^{p/s} for queries and ζ^{−p/s} for keys."""

    def __init__(self, xpos: "XPos", q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> None:
        super().__init__(xpos, q_positions, k_positions, dtype)
        self.k_tables = self.tables(q_positions, -1)

    def key_tables(self, q: Queries, k: Keys) -> Tables:
        at_queries = self.keys_at_queries(q, k, self.encoding.head_dim)
        return self.k_tables if at_queries else self.tables(self.k_positions, -1)

    def rotate(
        self, q: Queries, k: Keys, *, out: tuple[Tensor | None, Tensor | None] | None = None
    ) -> tuple[Queries, Keys]:
        """Rotate and scale queries and keys, with the arguments of ``PlacedRotation.rotate``.

        Raises:
            InvalidArgument: attention runs in float16, whose largest number is 65504, or ``out`` does not fit
                q and k.
        """
        for name, x in (("q", q), ("k", k)):
            if x is not None and attended_dtype(x) == torch.float16:
                raise InvalidArgument(
                    f"{name} is {x.dtype} and attention runs in torch.float16, whose largest number is 65504; "
                    f"xPos scales keys by up to e^{LARGEST:g}, so use torch.bfloat16, or torch.float32 without "
                    "autocast"
                )
        return super().rotate(q, k, out=out)


@final
class XPos(Rotation):
    """Rotates queries and keys, and shrinks scores with distance. Has no parameters.

    At position p, pair i of a query is multiplied by ζ_i^{p/s}, and pair i of a key by ζ_i^{−p/s}; ζ_i is below 1.
    Positions are limited to those at which the fastest pair's ζ^{p/s} is at least e^−64: at most 26,156 with the
    paper's settings.

    Args:
        head_dim: D, channels of one head, all of which rotate.
        pairing, base, scaling, phases: as in ``Rotary``.
        scale_base: s, the distance at which pair i's part of the score has shrunk by the factor ζ_i.
        gamma: γ in ζ_i = (2i/D + γ)/(1 + γ), above 0; with smaller values, the parts of the fastest pairs shrink
            sooner, and the largest position is smaller.
    """

    name: ClassVar[str] = "xpos"
    relative = True
    isometric = False
    causal = True
    grows = True
    fading_bits: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        pairing: Pairing,
        base: float = 10_000.0,
        scale_base: Annotated[int, at_least(64, "; the paper uses 512")] = 512,
        gamma: Annotated[float, positive("the paper uses 0.4")] = 0.4,
        scaling: Scaling | None = None,
        phases: Phases = "exact",
    ) -> None:
        super().__init__(head_dim, pairing)
        self.rotary = Rotary(head_dim, pairing=pairing, base=base, scaling=scaling, phases=phases)
        self.scale_base, self.gamma, self.rotary_dim = scale_base, gamma, head_dim
        self.attention_factor, self.softmax_factor = self.rotary.attention_factor, self.rotary.softmax_factor
        bits = torch.tensor(self.fading, dtype=torch.float64, device="cpu").view(torch.int64)
        self.register_constants(fading_bits=bits)
        self.position_limit = min(LIMIT, 1 + int(LARGEST / max(1e-9, -min(self.fading))))
        self.scaling = self.rotary.scaling

    @property
    def fading(self) -> list[float]:
        """ln ζ_i / s of every pair, the logarithm of its factor per position."""
        pairs = range(self.head_dim // 2)
        return [math.log((2 * i / self.head_dim + self.gamma) / (1 + self.gamma)) / self.scale_base for i in pairs]

    def tables(
        self, positions: Positions, dtype: torch.dtype = torch.float32, power: int = 1
    ) -> tuple[Float[Tensor, "*shape pairs"], Float[Tensor, "*shape pairs"]]:
        """Return cos and sin, multiplied by ζ^{power·p/s}; ``power`` is 1 for queries and −1 for keys."""
        compute_dtype = widest(positions.device)
        fading = floats(self.fading_bits, torch.float64).to(compute_dtype)
        factors = insert_head_axis((power * positions[..., None].to(compute_dtype) * fading).exp())
        cos, sin = self.rotary.tables(positions, compute_dtype)
        return (cos * factors).to(dtype), (sin * factors).to(dtype)

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        """Return the encoding with this scaling, as ``Encoding.with_scaling`` does. With None, pairs do not rotate,
        but scores still shrink with distance.
        """
        return self.with_settings(scaling=scaling or Proportional(0.0), phases=phases or self.rotary.clock.phases)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedXPos(self, q_positions, k_positions, dtype)
