"""ALiBi lowers each score in proportion to the distance between query and key (Press et al. 2022, section 3; arXiv
2108.12409).

    score(q, k) = q·k/√D − m_h·|p_k − p_q|

The slopes m_h are fixed. For n = 2^j heads, the slopes are the geometric series m_h = 2^(−8h/n) with h = 1…n. For
any other n, as in the authors' code, the slopes are those for the largest power of two n₀ ≤ n, followed by the
1st, 3rd, 5th … slopes for 2n₀. The bias is added after scores are divided by √D. The bias is 0 at distance 0 and
negative at all other distances. Keys before and after the query get the same bias, so a bidirectional model
favours neither side. Attention applies the causal mask, which is not part of ALiBi.
"""

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import at_least, is_number
from posenc.encodings.bias import Bias, batch_first, climbs, line_of_offsets, offsets
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import ScoreMod, alibi_score_mod
from posenc.kernels.attention.low_rank import SPAN, Channels, linear
from posenc.kernels.memory import floats


def slopes(heads: int, max_exponent: float = 8.0) -> list[float]:
    """Return the slope m_h of every head in float64. The paper uses ``max_exponent=8``."""
    heads = at_least(1)(heads, "heads")
    if not 0 < max_exponent < 100:
        raise InvalidArgument(f"max_exponent={max_exponent} must be between 0 and 100; use 8, as in the paper")
    power = 1 << (heads.bit_length() - 1)
    series = [2.0 ** (-max_exponent * h / power) for h in range(1, power + 1)]
    finer = [2.0 ** (-max_exponent * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return series + finer[: heads - power]


def _slopes_or(given: Sequence[float] | None, heads: int, max_exponent: float) -> list[float]:
    """Return the given slopes, or the paper's slopes if ``given`` is None."""
    paper = slopes(heads, max_exponent)
    if given is None:
        return paper
    if max_exponent != 8.0:
        raise InvalidArgument(
            f"max_exponent={max_exponent} and slopes cannot be combined; pass only one of the two"
        )
    if (
        not isinstance(given, list | tuple)
        or len(given) != len(paper)
        or not all(is_number(m) and m >= 0 for m in given)
    ):
        raise InvalidArgument(
            f"slopes={given!r} must be a list of {len(paper)} finite numbers of at least 0, one per head; use 0 "
            "for a head without a bias"
        )
    return [float(m) for m in given]


class LinearBias(Bias):
    """The bias −m_h·|offset| in the dtype of the slopes. In float32, the relative error of the bias is at most
    2^-23.
    """

    indexed_by: ClassVar[dict[str, str]] = {"slopes": "h", "q_positions": "bq", "k_positions": "bk"}

    def __init__(self, slopes: Float[Tensor, " H"], q_positions: Tensor, k_positions: Tensor) -> None:
        self.slopes, self.heads = slopes, slopes.shape[0]
        self.q_positions, self.k_positions = q_positions, k_positions
        self.derive()

    def derive(self) -> None:
        line = line_of_offsets(self.q_positions, self.k_positions)
        self.toeplitz = None if line is None else self.values(line.abs())

    @property
    def fall(self) -> Float[Tensor, " H"] | None:  # type: ignore[override]
        return None if self.toeplitz is None else self.slopes

    @property
    def modifier(self) -> ScoreMod:  # type: ignore[override]
        return alibi_score_mod(self.slopes, self.q_positions, self.k_positions)

    def values(self, distances: Tensor) -> Float[Tensor, "H *shape"]:
        """Return −m_h·distance for these distances, with heads as the first axis."""
        return -self.slopes.view(-1, *[1] * distances.dim()) * distances.to(self.slopes.dtype)

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        return batch_first(self.values(offsets(self.q_positions, self.k_positions, first, last, keys, start).abs()))

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        near = (
            self.k_positions.shape[-1] <= SPAN
            if self.toeplitz is not None
            else climbs(self.q_positions, self.k_positions)
        )
        return linear(self.slopes, self.q_positions, self.k_positions, dtype, scale) if near else None


def alibi_bias(heads: int, length: int) -> Float[Tensor, "H T T"]:
    """Return the two-sided bias as one tensor, for inspection. ``posenc.attention`` never builds this tensor."""
    at = torch.arange(length)
    return LinearBias(torch.tensor(slopes(heads), dtype=torch.float32), at, at).rows(0, length, length)[0]


@final
class ALiBi(Encoding):
    """Adds −m_h·|distance| to the scores. Has no parameters and no maximum position.

    Args:
        heads: H, query heads; any number, not only powers of two.
        max_exponent: if the number of heads is a power of two, the smallest slope is 2^(−max_exponent); 8 in the
            paper.
        slopes: the slope m of every head, instead of the geometric series; 0 for a head without a bias. ``ALiBi(8,
            slopes=[*slopes(4), 0, 0, 0, 0])`` is ALiBi on half of the heads.
    """

    name: ClassVar[str] = "alibi"
    acts_on = ("bias",)
    relative = True

    slope_bits: Tensor

    def __init__(self, heads: int, *, max_exponent: float = 8.0, slopes: Sequence[float] | None = None) -> None:
        super().__init__()
        values = _slopes_or(slopes, heads, max_exponent)
        self.heads = len(values)
        self.max_exponent = max_exponent
        # The bits are stored as integers, so that slopes stay float64 after the module is cast.
        self.register_constants(
            slope_bits=torch.tensor(values, dtype=torch.float64, device="cpu").view(torch.int64)
        )

    @property
    def slopes(self) -> Float[Tensor, " H"]:
        """The slope m_h of every head, in float32."""
        return floats(self.slope_bits, torch.float64).to(torch.float32)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        slopes = floats(self.slope_bits, torch.float64).to(dtype)
        return Placed(q_positions, k_positions, bias=LinearBias(slopes, q_positions, k_positions))

    def describe(self) -> str:
        if self.settings["slopes"] is not None:
            numbers = [f"{m:g}" for m in self.slopes.tolist()]
            shown = numbers if self.heads <= 8 else [*numbers[:2], "…", numbers[-1]]
            return f"ALiBi: {self.heads} heads with slopes {', '.join(shown)}"
        return f"ALiBi: {self.heads} heads, smallest slope 2^−{self.max_exponent:g} for powers of two"
