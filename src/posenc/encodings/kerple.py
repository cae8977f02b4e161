"""KERPLE subtracts a learned penalty that grows with the logarithm or a power of the distance (Chi et al. 2022;
2205.09921).

    log:    score(q, k) = q·k/√D − r_h·ln(1 + g_h·n)
    power:  score(q, k) = q·k/√D − r_h·n^g_h,   0 < g_h < 2

n is the distance |p_k − p_q|; r_h and g_h are two learned positive numbers per head. The power kernel with g_h = 1
is ALiBi with learned slopes. The authors' code clamps r and g to at least 0.01 in every forward pass, outside
autograd. In this class, the parameters are ln r and ln g (for the power kernel, ln r and the logit of g/2), so no
optimiser step can move r or g out of its range, and every gradient is exact. The authors cast distances to the
model's dtype. In bfloat16, neighbouring distances above 256 become equal; here distances are integers.
"""

import math
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.arguments import Size, tensors
from posenc.encodings.encoding import Encoding
from posenc.encodings.offset_bias import OffsetBias
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument

Kernel = Literal["log", "power"]
LEAST = 0.01
"""The smallest initial value of r and g, as in the authors' code."""


class Penalty(OffsetBias):
    """KERPLE's penalty, computed from every head's r (``size``) and g (``growth``)."""

    kernel: Kernel
    size: Tensor
    growth: Tensor

    def values(self, offsets: Int[Tensor, "*shape"]) -> Float[Tensor, "H *shape"]:
        size, growth = (number.view(-1, *[1] * offsets.dim()) for number in (self.size, self.growth))
        distance = offsets.abs().to(size.dtype)
        if self.kernel == "log":
            return -size * torch.log1p(growth * distance)
        # Distance 0 is handled separately, because the second derivative of 0^g is NaN (ln 0 is infinite).
        return -size * distance.clamp(min=1) ** growth * (distance > 0)


@final
class Kerple(Encoding):
    """Subtracts a learned penalty from the scores: r·ln(1 + g·n) or r·n^g at distance n. Has two parameters per
    head, r and g, and no maximum position.

    Args:
        heads: H, query heads.
        kernel: ``"log"`` or ``"power"``. With ``"log"``, r is initialised from U(0, 2) and g from U(0, 1); with
            ``"power"``, r is initialised from U(0, 1) and g from U(0, 2).
        shared: whether all layers share one penalty; in the authors' code, each layer has its own penalty.
    """

    name: ClassVar[str] = "kerple"
    acts_on = ("bias",)
    relative = True

    def __init__(self, heads: Size, *, kernel: Kernel = "log", shared: bool = False) -> None:
        super().__init__()
        self.heads, self.kernel, self.per_layer = heads, kernel, not shared
        self.size = nn.Parameter(torch.empty(heads))
        self.growth = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        most = {"log": (2.0, 1.0), "power": (1.0, 2.0 - LEAST)}[self.kernel]
        nn.init.uniform_(self.size, LEAST, most[0])
        nn.init.uniform_(self.growth, LEAST, most[1])
        self._take(self.size.detach().clone(), self.growth.detach().clone())

    def set(self, size: Float[Tensor, " H"], growth: Float[Tensor, " H"]) -> None:
        """Set r (``size``) and g (``growth``) to these values, as stored in a checkpoint of the authors' code.

        Raises:
            InvalidArgument: the shape is not ``(H,)``, a number is 0 or less, or an exponent g of the power kernel
                is 2 or more.
        """
        most = math.inf if self.kernel == "log" else 2.0
        tensors(size=size, growth=growth)
        for name, values, end in (("size", size, math.inf), ("growth", growth, most)):
            if values.shape != (self.heads,) or not bool(((values > 0) & (values < end)).all()):
                raise InvalidArgument(
                    f"{name}={values.tolist()} must have shape ({self.heads},) and be above 0 and below {end:g}; "
                    f"the authors' code clamps values to at least {LEAST}: use {name}.clamp(min={LEAST})"
                )
        self._take(size, growth)

    @torch.no_grad()
    def _take(self, size: Tensor, growth: Tensor) -> None:
        self.size.copy_(size.log())
        self.growth.copy_(growth.log() if self.kernel == "log" else (growth / 2).logit())

    def numbers(self, dtype: torch.dtype = torch.float32) -> tuple[Float[Tensor, " H"], Float[Tensor, " H"]]:
        """Return r and g, the two positive numbers of every head, which are computed from the parameters."""
        growth = self.growth.to(dtype)
        return self.size.to(dtype).exp(), growth.exp() if self.kernel == "log" else 2 * growth.sigmoid()

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        size, growth = self.numbers(dtype)
        bias = Penalty(self.heads, q_positions, k_positions, kernel=self.kernel, size=size, growth=growth)
        return Placed(q_positions, k_positions, bias=bias)
