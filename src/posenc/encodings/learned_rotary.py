"""Rotary position embedding with learned frequencies, as in RoPE-Mixed (Heo et al. 2024, arXiv 2403.13298, section
3.2) and LeRoPE.

    φ_i = Σ_a p_a·F[a, g, i]

F is one trained tensor in radians per position. It is indexed by axis a, group of heads g and pair i. For any
number of axes, a score depends only on offsets, because the angles of all axes are summed before the rotation. With
two axes, a pair can encode position along a diagonal, which is impossible with axial rotation. Initially, with A
axes, the pairs of a group are divided into sets of A pairs, and each set has its own frequency. The vectors
F[:, g, i] of the A pairs in a set are orthogonal and have random directions, and their length is the frequency.
With one axis, F starts as RoPE's frequencies; with two axes, it starts as in RoPE-Mixed. Checkpoints of Mistral
Large 4 (LeRoPE) store α, the logarithm of F/θ for RoPE's frequencies θ, and have one group: set F to θ·exp(α).

The authors multiply floating-point positions by F. At large positions, the rounding error of the product exceeds a
full turn. In this class, F is rounded to the nearest 64-bit fraction of a turn and multiplied in integer arithmetic
that wraps around. Gradients ignore this rounding: the gradient with respect to F is p times the gradient with
respect to φ.
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.arguments import Size, at_least
from posenc.encodings.placed import Positions
from posenc.encodings.rotation import Rotation
from posenc.errors import InvalidArgument
from posenc.kernels.rotary.specification import Pairing
from posenc.scaling.scaling import Base, unscaled_float32


@final
class LearnedRotary(Rotation):
    """Rotates queries and keys by angles with trained frequencies.

    Args:
        head_dim: D, channels of one head.
        pairing: ``"half"`` or ``"interleaved"``, as in ``Rotary``; RoPE-Mixed is interleaved.
        base: the base of the initial frequencies; 10000 by default, 10 in RoPE-Mixed, whose positions are rows and
            columns.
        rotary_dim: the number of channels that rotate, a multiple of 2·axes; the rest pass through unchanged.
            Default: all.
        axes: A, the number of coordinates of a position; with A > 1, positions are ``(A, T)`` or ``(A, B, T)``.
        groups: the number of groups of consecutive heads, each with its own frequencies; a divisor of the number
            of key heads.
        heads: H, query heads; ``slice_heads`` requires this number if there are several groups.
        shared: whether all layers share one tensor of frequencies (LeRoPE), instead of one per layer (RoPE-Mixed).
        signed: whether positions may be negative.

    ``.to(torch.bfloat16)`` rounds the frequencies, as it does every parameter, so angles at large positions become
    wrong: for the initial frequencies with ``head_dim=64``, the error of cos at position 4096 is up to 0.7. In a
    16-bit model, keep the frequencies in float32: call ``encoding.float()`` after the cast, and then load the
    frequencies again.
    """

    name: ClassVar[str] = "rotary-learned"
    relative = True

    def __init__(
        self,
        head_dim: int,
        *,
        pairing: Pairing,
        base: Base = 10_000.0,
        rotary_dim: int | None = None,
        axes: Size = 1,
        groups: Size = 1,
        heads: Annotated[int | None, at_least(1)] = None,
        shared: bool = True,
        signed: bool = False,
    ) -> None:
        super().__init__(head_dim, pairing)
        self.rotary_dim = self.head_dim if rotary_dim is None else rotary_dim
        if not 0 < self.rotary_dim <= head_dim or self.rotary_dim % (2 * axes):
            raise InvalidArgument(
                f"rotary_dim={self.rotary_dim} must be a multiple of 2·axes={2 * axes} and at most "
                f"head_dim={head_dim}, because every frequency has a pair of channels for each axis"
            )
        self.base, self.axes, self.groups, self.heads = base, axes, groups, heads
        self.signed, self.per_layer = signed, not shared
        self.frequencies = nn.Parameter(torch.empty(axes, groups, self.rotary_dim // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the frequencies: with one axis, to RoPE's frequencies; with several axes, along random
        orthogonal directions.
        """
        A, G, pairs = self.frequencies.shape
        frequencies = unscaled_float32(2 * pairs // A, self.base).to(self.frequencies.device)
        if A == 1:
            fresh = frequencies.expand(1, G, -1)
        else:
            drawn = torch.empty(G, pairs // A, A, A, device=self.frequencies.device, dtype=torch.float32).normal_()
            directions = torch.linalg.qr(drawn)[0]
            fresh = (directions * frequencies[:, None, None]).permute(3, 0, 2, 1).flatten(-2)
        with torch.no_grad():
            self.frequencies.copy_(fresh)

    def tables(
        self, positions: Positions, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "#B groups T pairs"], Float[Tensor, "#B groups T pairs"]]:
        """Return cos and sin for every group, position and pair; both are differentiable with respect to the
        frequencies.
        """
        angles = self.angles(positions, self.frequencies)
        return angles.cos().to(dtype), angles.sin().to(dtype)
