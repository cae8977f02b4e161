"""HoPE, the name of three papers; two of them are rotary encodings with other frequencies, made here by full name.

high-frequency   pairs too slow to rotate once within the trained length stand still (Chen et al. 2024, 2410.21216)
hybrid           pictures and films: rows and columns share the fast pairs in turn; the slow ones, which other
                 layouts give to time, stand still (Li et al. 2025, 2505.20444, section 4.1)

The third, hyperbolic HoPE (2509.05218), replaces rotation by Lorentz boosts, which keep no length and grow with
distance; it is not here. Hybrid HoPE's other half, a stride of time drawn anew for every film, is a matter of the
positions that are passed.
"""

from posenc.arguments import as_integer
from posenc.encodings.axes import strided
from posenc.encodings.rotary import Pairing, Rotary
from posenc.errors import InvalidArgument
from posenc.scaling.checks import check_original_length
from posenc.scaling.proportional import Proportional
from posenc.scaling.pruned import Pruned


def high_frequency(head_dim: int, num_positions: int, *, pairing: Pairing, base: float = 10_000.0) -> Rotary:
    """Rotary positions whose pairs all complete a rotation within the trained length, or stand still.

    Args:
        head_dim: D, channels of one head.
        num_positions: L, the trained length.
        pairing, base: as in ``Rotary``.
    """
    check_original_length(num_positions, "num_positions")
    return Rotary(head_dim, pairing=pairing, base=base, scaling=Pruned(num_positions))


def hybrid(head_dim: int, *, pairing: Pairing, base: float = 10_000.0, still: int | None = None) -> Rotary:
    """Rotary positions of rows and columns ``(2, T)``; a token of text has the same number in both.

    Args:
        head_dim: D, channels of one head, a multiple of 4.
        pairing, base: as in ``Rotary``.
        still: how many of the slowest pairs stand still; a quarter, as M-RoPE gives to time, where it is left out.
    """
    pairs = as_integer(head_dim, "head_dim") // 2
    still = pairs // 4 if still is None else as_integer(still, "still")
    if head_dim % 4 or not 0 <= still < pairs:
        raise InvalidArgument(
            f"head_dim={head_dim} must be a multiple of 4, and still={still} pairs below the {pairs} that there are"
        )
    return Rotary(
        head_dim,
        pairing=pairing,
        base=base,
        axes=strided(pairs // 2, pairs // 2),
        scaling=Proportional((pairs - still) / pairs),
    )
