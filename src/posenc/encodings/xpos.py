"""xPos: rotary positions whose pairs fade with distance, the fast ones sooner (Sun et al. 2023, arXiv 2212.10554).

    score(q, k) = Σ_i ζ_i^{(p_q − p_k)/s}·Re(q_i·conj(k_i)·e^{i(p_q − p_k)θ_i}) / √D
    ζ_i = (2i/D + γ)/(1 + γ),   θ_i = base^(−2i/D),   s = 512,  γ = 0.4

(section 2.2), so that far scores stop oscillating. The authors scale queries by ζ^{p/s} and keys by ζ^{−p/s},
centred on half the length: a cached key is then stale when the length grows, and float16 overflows after some
thousand tokens. Here ``rotate`` rotates and nothing else, keys in a cache stay right for ever, and attention
multiplies the factors of the difference, anchored at its queries (``Placed.decay``). Keys ahead of their query
would grow, so the model is causal. LeX, their attention in windows at test time, is a ``Mask`` with a window.
"""

import math
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import is_number
from posenc.clock import Phases
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import LARGEST, SPAN, KeyPositions, Placed, Positions
from posenc.encodings.rotary import Pairing, PlacedRotary, Rotary
from posenc.errors import InvalidArgument
from posenc.scaling.proportional import Proportional
from posenc.scaling.scaling import Scaling


@final
class XPos(Encoding):
    """Rotates queries and keys, and lets their pairs fade with distance; no parameters.

    Args:
        head_dim: D, channels of one head, all of which rotate.
        pairing, base, scaling, phases: as in ``Rotary``.
        scale_base: s, positions over which pair i fades by ζ_i.
        gamma: γ above 0; small values fade the fastest pairs sooner.
    """

    name: ClassVar[str] = "xpos"
    acts_on = ("queries_keys",)
    relative = True
    causal = True
    not_rerotatable = ""
    decay_bits: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        pairing: Pairing,
        base: float = 10_000.0,
        scale_base: int = 512,
        gamma: float = 0.4,
        scaling: Scaling | None = None,
        phases: Phases = "exact",
    ) -> None:
        super().__init__()
        if type(scale_base) is not int or scale_base < 64:
            raise InvalidArgument(
                f"scale_base={scale_base!r} must be a whole number of positions, at least 64; the paper has 512"
            )
        if not is_number(gamma) or not gamma > 0:
            raise InvalidArgument(f"gamma={gamma!r} must be a number above 0; the paper has 0.4")
        self.rotary = Rotary(head_dim, pairing=pairing, base=base, scaling=scaling, phases=phases)
        self.scale_base, self.gamma = scale_base, gamma
        self.head_dim, self.pairing, self.rotary_dim = self.rotary.head_dim, pairing, self.rotary.rotary_dim
        fading = torch.tensor(self.fading, dtype=torch.float64, device="cpu")
        self.register_constants(decay_bits=fading.view(torch.int64))
        self.decay_span = int(min(SPAN, LARGEST / max(1e-9, -min(self.fading))))
        self.scaling, self.isometric = self.rotary.scaling, self.rotary.isometric

    @property
    def fading(self) -> list[float]:
        """ln ζ_i / s of every pair, per position."""
        pairs = range(self.head_dim // 2)
        return [math.log((2 * i / self.head_dim + self.gamma) / (1 + self.gamma)) / self.scale_base for i in pairs]

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        """As everywhere; without rotation pairs still fade."""
        return self.with_settings(scaling=scaling or Proportional(0.0), phases=phases or self.rotary.clock.phases)

    def rotate_keys(self, k: Float[Tensor, "B K S D"], positions: Positions) -> Float[Tensor, "B K S E"]:
        return self.rotary.rotate_keys(k, positions)

    def unrotate(self, k: Float[Tensor, "B K S E"], positions: Positions) -> Float[Tensor, "B K S D"]:
        return self.rotary.unrotate(k, positions)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = PlacedRotary(self.rotary, q_positions, k_positions, dtype)
        fading = self.decay_bits.view(torch.float64).to(dtype)
        channels = fading.repeat(2) if self.pairing == "half" else fading.repeat_interleave(2)
        placed.decay, placed.decay_span = channels[None, None], self.decay_span
        return placed
