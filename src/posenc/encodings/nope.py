"""NoPE means no positional encoding (Kazemnejad et al. 2023, arXiv 2305.19466; Haviv et al. 2022).

With neither a causal mask nor a positional encoding, attention is permutation-equivariant: f(PX) = P f(X). With a
causal mask, attention is not permutation-equivariant, because each query sees only its own token and the tokens
before it. In a decoder without positional encoding, the mask is the only source of information about order.
"""

from typing import ClassVar, final

import torch

from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions


@final
class NoPE(Encoding):
    """Does nothing and has no parameters."""

    name: ClassVar[str] = "nope"
    acts_on = ()
    relative = True
    signed = True

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return Placed(q_positions, k_positions)
