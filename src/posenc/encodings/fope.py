"""FoPE (Fourier position embedding) rotates each pair by learned mixtures of sinusoids (Hua et al. 2024, arXiv
2412.17739).

    cos_i(p) = Σ_j cos(p·θ_j)·C[g, j, i],   sin_i(p) = Σ_j sin(p·θ_j)·S[g, j, i],   θ_j = base^(−2j/D) ≥ 2π/L
    (x, y) → (x·cos_i − y·sin_i,  x·sin_i + y·cos_i)

(sections 3.2 and 4.1). C and S are learned, with separate coefficients for each group g of heads. Frequencies below
2π/L, which do not complete one turn within the trained length L, are dropped. The pairs that would have these
frequencies do not depend on position: as in the authors' training code, their cos_i and sin_i are both 1. These
pairs rotate by 45° and grow by √2, so their share of a score doubles. (Some inference code sets sin_i to 0 for
these pairs, so its scores differ from those in training.) C and S start as the identity plus ``spread`` times
Xavier normal initialisation. Mixed cosines and sines are not on the unit circle, so rotation changes the lengths of
vectors, and scores depend on both positions, not only on the offset. Intern-S1-Pro uses FoPE.
"""

import math
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from posenc.arguments import Size, at_least, is_number, such_that
from posenc.clock import Clock, Phases
from posenc.encodings.placed import Positions, insert_head_axis
from posenc.encodings.rotation import Rotation
from posenc.encodings.wide import product
from posenc.errors import InvalidArgument
from posenc.kernels.rotary.specification import Pairing
from posenc.scaling.checks import Length
from posenc.scaling.default import Default
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Base, check_dim_and_base


@final
class FoPE(Rotation):
    """Rotates queries and keys as RoPE does, with learned sums in place of each cosine and sine.

    Args:
        head_dim: D, channels of one head.
        num_positions: L, the trained length.
        pairing: ``"half"`` or ``"interleaved"``, as in ``Rotary``.
        base: the base of the frequencies; 10000 in the paper.
        kept: how many frequencies are kept, counted from the fastest; by default, all frequencies that complete at
            least one rotation within L.
        groups: the number of groups of consecutive heads, each with its own coefficients; a divisor of the number
            of key heads.
        heads: H, query heads; ``slice_heads`` requires this number if there are several groups.
        spread: the size of the random part of the initial coefficients; 0.5 in Intern-S1-Pro.
        shared: whether all layers share the same coefficients.
        phases: ``"exact"``, or ``"float32"`` for the angles of the authors' code.
    """

    name: ClassVar[str] = "fope"
    not_rerotatable = "its mixtures of cosines and sines are not rotations, and may not be invertible"
    relative = False
    isometric = False

    def __init__(
        self,
        head_dim: int,
        num_positions: Length,
        *,
        pairing: Pairing,
        base: Base = 10_000.0,
        kept: int | None = None,
        groups: Size = 1,
        heads: Annotated[int | None, at_least(1)] = None,
        spread: Annotated[float, such_that(is_number, "be a finite number; Intern-S1-Pro uses 0.5")] = 0.5,
        shared: bool = True,
        phases: Phases = "exact",
    ) -> None:
        super().__init__(head_dim, pairing)
        self.num_positions, self.base = num_positions, base
        check_dim_and_base(self.head_dim, base, "head_dim")
        all_frequencies = Default().frequencies(self.head_dim, self.base)
        slowest = 2 * math.pi / self.num_positions
        finishing = sum(float(theta) >= slowest for theta in all_frequencies.exact)
        self.kept = finishing if kept is None else kept
        if not 1 <= self.kept <= self.head_dim // 2:
            raise InvalidArgument(
                f"kept={self.kept} must be between 1 and head_dim/2={self.head_dim // 2}; {finishing} of the "
                f"frequencies complete a rotation within num_positions={self.num_positions}"
            )
        self.groups, self.spread, self.per_layer, self.heads = groups, spread, not shared, heads
        fastest = Frequencies(all_frequencies.exact[: self.kept], all_frequencies.float32[: self.kept])
        self.clock = Clock(fastest, phases)
        self.cos = nn.Parameter(torch.empty(groups, self.kept, self.kept))
        self.sin = nn.Parameter(torch.empty(groups, self.kept, self.kept))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.reset_buffers()
        for weight in (self.cos, self.sin):
            nn.init.normal_(weight, std=self.spread * self.kept**-0.5)  # Xavier's √(2/(n+n)), times the spread
            with torch.no_grad():
                weight.add_(torch.eye(self.kept, device=weight.device))

    def tables(
        self, positions: Positions, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "#B groups T pairs"], Float[Tensor, "#B groups T pairs"]]:
        """Return the mixed cos and sin of every group, position and pair; both are 1 for a dropped frequency."""
        missing = (0, self.head_dim // 2 - self.kept)
        rows = positions if positions.dim() == 2 else positions[None]
        cos, sin = (
            pad(product(insert_head_axis(table), weight), missing, value=1.0).to(dtype)
            for table, weight in zip(self.clock(rows, dtype), (self.cos, self.sin), strict=True)
        )
        return cos, sin
