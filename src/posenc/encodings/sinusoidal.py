"""Sinusoidal position vectors, which are added to the token embeddings (Vaswani et al. 2017, section 3.5; arXiv
1706.03762).

    PE(p, 2i) = sin(p·θ_i)    PE(p, 2i+1) = cos(p·θ_i)    θ_i = base^(−2i/C),  i = 0 … ⌈C/2⌉−1

For each k, one fixed rotation maps PE(p) to PE(p+k) at every p, and PE(p)·PE(q) = Σ_i cos(θ_i (p−q)). Wavelengths
range from 2π to 2π·base^((C−2)/C). At C = 512, the longest wavelength is 60 611, not 2π·10000 = 62 832.
"""

from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import Size, is_number, such_that
from posenc.clock import Clock
from posenc.encodings.embedding_table import EmbeddingTable
from posenc.encodings.placed import Positions
from posenc.errors import InvalidArgument
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Base, falling

Order = Literal["interleaved", "block"]
Spacing = Literal["paper", "tensor2tensor"]


def sinusoid_frequencies(width: int, base: float = 10_000.0, spacing: Spacing = "paper") -> Frequencies:
    """Return the ⌈width/2⌉ frequencies of a sinusoidal table of ``width`` columns."""
    if spacing == "paper":
        frequencies = falling(base, range(0, width, 2), width)
    else:  # the authors' code ends at exactly 1/base
        frequencies = falling(base, range(width // 2), max(width // 2 - 1, 1))
    return Frequencies(frequencies, tuple(float(f) for f in frequencies))


def sinusoids(
    cos: Float[Tensor, "*shape pairs"], sin: Float[Tensor, "*shape pairs"], width: int, order: Order
) -> Float[Tensor, "*shape C"]:
    """Arrange sines and cosines in ``width`` columns.

    ``"interleaved"``: sin, cos, sin, cos …, as in the paper. ``"block"``: the same columns, but with all sines
    before all cosines. If the width is odd, the last cosine is omitted.
    """
    both = torch.stack((sin, cos), dim=-1).flatten(-2) if order == "interleaved" else torch.cat((sin, cos), dim=-1)
    return both[..., :width]


@final
class Sinusoidal(EmbeddingTable):
    """Adds rows of the sinusoidal table to the token embeddings. Has no parameters and no maximum position.

    Args:
        width: C, channels of the token embeddings; if C is odd, the last cosine is omitted.
        base: the base of the frequencies; 10000 in the paper.
        scale: the factor by which the rows are multiplied. The paper multiplies embeddings by √C instead. At small
            widths, whether training succeeds depends on the rows' magnitude relative to that of the embeddings.
        order: ``"interleaved"`` (paper) or ``"block"`` (authors' code, Whisper, M2M100).
        spacing: ``"paper"``, θ_i = base^(−2i/C), or ``"tensor2tensor"``, θ_i = base^(−i/(C/2−1)), as in the
            authors' code, Whisper and M2M100. With ``"tensor2tensor"``, the longest wavelength is exactly 2π·base.
    """

    name: ClassVar[str] = "sinusoidal"

    def __init__(
        self,
        width: Size,
        *,
        base: Base = 10_000.0,
        scale: Annotated[float, such_that(is_number, "be a finite number; 1.0 leaves the rows unchanged")] = 1.0,
        order: Order = "interleaved",
        spacing: Spacing = "paper",
    ) -> None:
        super().__init__()
        if spacing == "tensor2tensor" and width % 2:
            raise InvalidArgument(f"width={width} must be even if spacing='tensor2tensor'; use width={width + 1}")
        self.width = width
        self.base = base
        self.scale = scale
        self.order: Order = order
        self.spacing: Spacing = spacing
        self.clock = Clock(sinusoid_frequencies(width, self.base, spacing))

    def rows(self, positions: Positions, dtype: torch.dtype) -> Float[Tensor, "*shape C"]:
        cos, sin = self.clock(positions, dtype)
        rows = sinusoids(cos, sin, self.width, self.order)
        return rows if self.scale == 1.0 else rows * self.scale
