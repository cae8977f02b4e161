"""FIRE applies a small network to the distance divided by the query's position (Li et al. 2024; 2310.04418).

    score(q, k) = q·k/√D + W₂·relu(w₁·z + b₁) + b₂,   z = ψ(n) / (ψ(max(p_q, |m|·L₀)) + ε),   ψ(x) = ln(|c|·x + 1)

n is the distance |p_k − p_q|, and p_q is the query's position, which is the largest distance to a key that the
query sees under a causal mask. The normaliser max(p_q, |m|·L₀) does not depend on the length of the sequence, so a
token has the same bias in cached decoding and in a full forward pass. c and m are learned; L₀ and ε = 1e-6 are
constants. For queries up to position |m|·L₀, the normaliser is constant and the bias is a function of the offset.
Every later query has its own normaliser.

The network is a piecewise linear function of one number, with one more piece than it has hidden units. The piece
for z is looked up, so no tensor needs an axis for the hidden units. Values and gradients equal those of the
network.
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from posenc.arguments import Size, positive
from posenc.encodings.bias import Bias, batch_first, line_of_offsets, offsets, rows_of_line
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.wide import widest
from posenc.kernels.memory import is_concrete

EPSILON = 1e-6


class FireBias(Bias):
    """FIRE's bias: the output of its network at distances that are normalised row by row.

    Args:
        c: the factor c of a distance x in ln(c·x + 1).
        nearest: |m|·L₀; the normaliser is the same for all queries up to this position.
        breaks: the normalised distances z at which pieces of the network end, in ascending order.
        pieces: two tensors with a number per piece and head: the value of the piece's line at z = 0, and its slope.
    """

    indexed_by: ClassVar[dict[str, str]] = {"pieces": "·h", "q_positions": "bq", "k_positions": "bk"}

    def __init__(
        self,
        c: Float[Tensor, ""],
        nearest: Float[Tensor, ""],
        breaks: Float[Tensor, " units"],
        pieces: tuple[Float[Tensor, "pieces H"], Float[Tensor, "pieces H"]],
        q_positions: Tensor,
        k_positions: Tensor,
    ) -> None:
        self.c, self.nearest, self.breaks, self.pieces = c, nearest, breaks, pieces
        self.q_positions, self.k_positions = q_positions, k_positions
        self.heads = pieces[0].shape[1]
        self.derive()

    def derive(self) -> None:
        self.toeplitz, nearest = None, self.nearest.detach()
        line = line_of_offsets(self.q_positions, self.k_positions)
        if line is not None and is_concrete(nearest) and int(self.k_positions[-1]) <= float(nearest):
            self.toeplitz = self.values(line, self.nearest).contiguous()

    def values(self, offsets: Tensor, normaliser: Tensor) -> Float[Tensor, "H *shape"]:
        """Return the network's output at these offsets; ``normaliser`` broadcasts against the offsets."""
        z = self.psi(offsets.abs().to(self.c.dtype)) / (self.psi(normaliser) + EPSILON)
        piece = torch.bucketize(z.detach(), self.breaks)
        value, slope = (embedding(piece, table).movedim(-1, 0) for table in self.pieces)
        return value + slope * z

    def psi(self, x: Tensor) -> Tensor:
        """Return ln(c·x + 1)."""
        return torch.log1p(self.c * x)

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        if self.toeplitz is not None:
            return rows_of_line(self.toeplitz, self.q_positions.shape[0], first, last, keys, start)
        apart = offsets(self.q_positions, self.k_positions, first, last, keys, start)
        normaliser = torch.maximum(self.q_positions[..., first:last, None].to(self.c.dtype), self.nearest)
        return batch_first(self.values(apart, normaliser))


@final
class FIRE(Encoding):
    """Adds to the scores a learned function of the distance divided by the query's position. For causal models.

    Args:
        heads: H, query heads.
        units: the number of hidden units of the network that computes this function; 32 in the paper.
        nearest: L₀; up to position |m|·L₀, where m is learned, the divisor is constant. 512 in the authors' code.
        shared: whether all layers share one network (FIRE-S), instead of one network per layer.
    """

    name: ClassVar[str] = "fire"
    acts_on = ("bias",)
    relative = False
    causal = True

    def __init__(
        self,
        heads: Size,
        *,
        units: Size = 32,
        nearest: Annotated[float, positive("512 is usual")] = 512.0,
        shared: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.units, self.nearest, self.per_layer = heads, units, nearest, not shared
        self.c, self.m = nn.Parameter(torch.empty(1)), nn.Parameter(torch.empty(1))
        self.inner, self.inner_bias = nn.Parameter(torch.empty(units)), nn.Parameter(torch.empty(units))
        self.outer, self.outer_bias = nn.Parameter(torch.empty(heads, units)), nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.c, 0.1)
        nn.init.constant_(self.m, 1.0)
        for parameter in (self.inner, self.inner_bias):
            nn.init.uniform_(parameter, -1.0, 1.0)
        for parameter in (self.outer, self.outer_bias):
            nn.init.uniform_(parameter, -(self.units**-0.5), self.units**-0.5)

    def pieces(self, dtype: torch.dtype) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the arguments ``breaks`` and ``pieces`` of ``FireBias``, in this dtype."""
        compute_dtype = widest(self.inner.device)
        inner, bias = self.inner.to(compute_dtype), self.inner_bias.to(compute_dtype)
        with torch.no_grad():
            breaks, order = torch.where(inner == 0, torch.inf, -bias / inner).sort()  # where a unit turns on or off
            rank, piece = order.argsort(), torch.arange(self.units + 1, device=inner.device)[:, None]
            on = torch.where(inner == 0, bias > 0, torch.where(inner > 0, piece > rank, piece <= rank)).to(
                compute_dtype
            )
        outer = self.outer.to(compute_dtype).T
        value, slope = ((on[:, :, None] * part[:, None] * outer).sum(1) for part in (bias, inner))
        value = value + self.outer_bias.to(compute_dtype)
        return breaks.to(dtype), (value.to(dtype), slope.to(dtype))

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        c, nearest = self.c.to(dtype).abs().squeeze(), (self.m.to(dtype) * self.nearest).abs().squeeze()
        return Placed(
            q_positions, k_positions, bias=FireBias(c, nearest, *self.pieces(dtype), q_positions, k_positions)
        )
