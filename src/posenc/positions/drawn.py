"""Random positions from a range that is longer than the sequence, so that a model trained on short sequences can
be used on long sequences.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.arguments import at_least
from posenc.errors import InvalidArgument
from posenc.kernels.memory import LIMIT, check_positions
from posenc.positions.grids import Device


def randomised(
    T: int, up_to: int, generator: torch.Generator | None = None, *, device: Device = None
) -> Int[Tensor, " T"]:
    """Return T different positions below ``up_to`` in ascending order. All sets of positions are equally likely.

    As in Ruoss et al. 2023, arXiv 2305.16843, section 3, draw new positions for every training sequence. Then all
    distances below ``up_to`` occur in training, but few adjacent tokens have adjacent positions. For evaluation,
    use random positions or 0, 1, 2 …. For a batch, draw each row separately and combine the rows with
    ``torch.stack``.

    Raises:
        InvalidArgument: ``up_to`` is below T or above 2^31.
    """
    _check(T, up_to)
    if up_to <= 4 * T:
        return torch.randperm(up_to, generator=generator)[:T].sort().values.to(device)
    drawn = torch.randint(up_to, (T,), generator=generator).unique()
    while len(drawn) < T:  # duplicates are drawn again, so all sets stay equally likely
        drawn = torch.cat((drawn, torch.randint(up_to, (T - len(drawn),), generator=generator))).unique()
    return drawn.to(device)


def pose(
    T: int, up_to: int, chunks: int = 2, generator: torch.Generator | None = None, *, device: Device = None
) -> Int[Tensor, " T"]:
    """Return positions of T tokens in chunks, within which positions count up by one. There is a random gap
    before each chunk except the first.

    PoSE (Zhu et al. 2024, arXiv 2309.10400, section 3): the sequence is cut into chunks at random points, and chunk
    i is shifted by u_i, with u_0 = 0 and u_i uniform in {u_{i−1}, …, up_to − T}. Adjacent tokens within a chunk
    keep adjacent positions, and all distances below ``up_to`` occur. In the paper, the tokens of the chunks also
    come from different places in a longer text.

    The authors' code uses two chunks, of which the first is at most half of the sequence. Here all cut points are
    equally likely.

    Raises:
        InvalidArgument: ``up_to`` is below T or above 2^31, or there are more chunks than tokens.
    """
    _check(T, up_to)
    at_least(1)(chunks, "chunks")
    if chunks > T:
        raise InvalidArgument(f"chunks={chunks} must be at most T={T}, because each chunk has at least one token")
    cuts = torch.randperm(T - 1, generator=generator)[: chunks - 1] + 1
    skips, skip = torch.zeros(T, dtype=torch.int64), 0
    for cut in cuts.sort().values.tolist():
        skip = int(torch.randint(skip, up_to - T + 1, (), generator=generator))
        skips[cut:] = skip
    return (torch.arange(T) + skips).to(device)


def coupled(
    groups: Int[Tensor, "*B T"], up_to: int, generator: torch.Generator | None = None
) -> Int[Tensor, "*B T"]:
    """Return positions that are equal for all tokens of a group, with a random start for each row.

    Position Coupling (Cho et al. 2024, arXiv 2405.20671, section 3): tokens that belong together, such as digits
    of the same significance in both operands and the sum, have the same number in ``groups``. This function adds
    a start that is uniform in 0 … up_to − 1 − max(groups), so that during training a model sees all the positions
    that longer sums need. For evaluation, use ``groups`` plus any start. The authors reserve position 0 for padding
    and for the first and last token; to do the same, number groups from 1 and set the positions of these tokens to
    0 afterwards.

    Raises:
        InvalidArgument: groups are floats, or a group is not below ``up_to``.
        PositionOutOfRange: a group is negative.
    """
    check_positions(groups, "groups")
    at_least(1)(groups.numel(), "groups.numel()")
    at_least(1)(up_to, "up_to")
    last = groups.amax(-1, keepdim=True)
    if not int(last.max()) < up_to <= LIMIT:
        raise InvalidArgument(f"up_to={up_to} must be above max(groups)={int(last.max())} and at most {LIMIT}")
    share = torch.rand(last.shape, dtype=torch.float64, generator=generator).to(last.device)
    return groups + (share * (up_to - last)).long()


def _check(T: int, up_to: int) -> None:
    at_least(1)(T, "T")
    at_least(1)(up_to, "up_to")
    if not T <= up_to <= LIMIT:
        raise InvalidArgument(
            f"up_to={up_to} must be between T={T} and {LIMIT}, because each token needs its own position"
        )
