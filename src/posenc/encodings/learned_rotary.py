"""Rotary positions with learned frequencies: RoPE-Mixed (Heo et al. 2024, arXiv 2403.13298, section 3.2), LeRoPE.

    φ_i = Σ_a p_a·F[a, g, i]

one tensor F of radians per position, by axis a, group of heads g and pair i, that gradients flow to. However many
axes there are, a score sees offsets only, because angles add up before they turn; with two axes a pair may look
along a diagonal, which axial rotation cannot. A fresh F is a ladder of pairs/A rungs, A times over, every rung's A
copies pointing along the axes of a random rotation: the plain ladder with one axis, RoPE-Mixed's start with two.
Mistral Large 4 (LeRoPE) holds α with F = θ·exp(α) and one group; set F to that.

The authors multiply floating-point positions by F, which is wrong by whole turns far out. Here F is read as the
64-bit fraction of a turn that it is nearest to, and multiplied in wrapping integers; its gradient is the exact
p·∂φ.
"""

from typing import ClassVar, final, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.arguments import as_integer, as_number, at_least_one, one_of
from posenc.clock import RADIANS_PER_UNIT
from posenc.encodings.encoding import Encoding, check_heads
from posenc.encodings.groups import PlacedGroups, for_heads
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument
from posenc.kernels.rotary import rotate
from posenc.kernels.rotary.specification import Pairing
from posenc.scaling.scaling import check_ladder, ladder_float32


@final
class LearnedRotary(Encoding):
    """Rotates queries and keys at frequencies that are trained.

    Args:
        head_dim: D, channels of one head.
        pairing: ``"half"`` or ``"interleaved"``, as in ``Rotary``; RoPE-Mixed is interleaved.
        base: of the ladder that a fresh F has; 10000, and 10 in RoPE-Mixed, whose positions are rows and columns.
        rotary_dim: channels that turn, a multiple of 2·axes; the rest pass bit for bit. Default all.
        axes: coordinates of a position; with A > 1 positions are ``(A, T)`` or ``(A, B, T)``.
        groups: groups of consecutive heads with frequencies of their own; the heads of keys are a multiple of it.
        heads: H, query heads; needed where a rank holds some of several groups.
        shared: whether all layers read one F (LeRoPE), or each has its own (RoPE-Mixed).
        signed: whether positions may be negative.
    """

    name: ClassVar[str] = "rotary-learned"
    acts_on = ("queries_keys",)
    relative = True
    not_rerotatable = ""

    def __init__(
        self,
        head_dim: int,
        *,
        pairing: Pairing,
        base: float = 10_000.0,
        rotary_dim: int | None = None,
        axes: int = 1,
        groups: int = 1,
        heads: int | None = None,
        shared: bool = True,
        signed: bool = False,
    ) -> None:
        super().__init__()
        one_of("pairing", pairing, get_args(Pairing))
        self.head_dim = as_integer(head_dim, "head_dim")
        self.rotary_dim = self.head_dim if rotary_dim is None else as_integer(rotary_dim, "rotary_dim")
        at_least_one(axes=axes, groups=groups, **({} if heads is None else {"heads": heads}))
        if not 0 < self.rotary_dim <= head_dim or self.rotary_dim % (2 * axes):
            raise InvalidArgument(
                f"rotary_dim={self.rotary_dim} must be a multiple of 2·axes={2 * axes}, at most "
                f"head_dim={head_dim}: every rung of the ladder has a pair along every axis"
            )
        self.pairing: Pairing = pairing
        self.base = as_number(base, "base")
        check_ladder(2, self.base)
        self.axes, self.groups, self.signed, self.per_layer = axes, groups, signed, not shared
        self.heads = heads
        self.frequencies = nn.Parameter(torch.empty(axes, groups, self.rotary_dim // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """F from the ladder: along the one axis, or rung by rung along those of a random rotation."""
        A, G, pairs = self.frequencies.shape
        rungs = ladder_float32(2 * pairs // A, self.base).to(self.frequencies.device)
        if A == 1:
            made = rungs.expand(1, G, -1)
        else:
            drawn = torch.empty(G, pairs // A, A, A, device=self.frequencies.device, dtype=torch.float32).normal_()
            directions = torch.linalg.qr(drawn)[0]
            made = (directions * rungs[:, None, None]).permute(3, 0, 2, 1).flatten(-2)
        with torch.no_grad():
            self.frequencies.copy_(made)

    def tables(
        self, positions: Positions, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "#B groups T pairs"], Float[Tensor, "#B groups T pairs"]]:
        """cos and sin of every group, position and pair, with a gradient to the frequencies."""
        wide = torch.float32 if positions.device.type == "mps" else torch.float64
        F = self.frequencies.to(wide)  # (A, G, pairs)
        at = positions[None] if self.axes == 1 else positions
        at = (at[:, None] if at.dim() == 2 else at)[:, :, None, :, None]  # (A, B, 1, T, 1)
        turns = F.detach() / (RADIANS_PER_UNIT * 2.0**64)
        words = ((turns - (turns + 0.5).floor()) * 2.0**64).round().to(torch.int64)
        phases = (at * words[:, None, :, None]).sum(0)
        angles = phases.to(wide) * RADIANS_PER_UNIT
        # Zero, with the gradient of the angle: autograd sees p·F, and the number stays that of the integers.
        angles = angles + (at.to(wide) * (F - F.detach())[:, None, :, None]).sum(0)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def rotate_keys(self, k: Float[Tensor, "B K S D"], positions: Positions) -> Float[Tensor, "B K S E"]:
        check_heads("k", k, positions, self.head_dim, self.axes)
        return rotate(k, *for_heads(k.shape[1], *self.tables(positions, k.dtype)), self.pairing)

    def unrotate(self, k: Float[Tensor, "B K S E"], positions: Positions) -> Float[Tensor, "B K S D"]:
        check_heads("k", k, positions, self.head_dim, self.axes)
        cos, sin = for_heads(k.shape[1], *self.tables(positions, k.dtype))
        return rotate(k, cos, -sin, self.pairing)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedGroups(self, q_positions, k_positions, dtype)
