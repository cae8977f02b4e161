"""Positions drawn from a longer range than a text has tokens, to train short for reading long."""

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.arguments import at_least_one
from posenc.errors import InvalidArgument
from posenc.positions.limits import LIMIT, Device, check


def randomised(
    T: int, up_to: int, generator: torch.Generator | None = None, *, device: Device = None
) -> Int[Tensor, " T"]:
    """T different positions below ``up_to`` in ascending order, every set of them equally likely.

    Ruoss et al. 2023, arXiv 2305.16843, section 3: drawn anew for every training text, so that all distances below
    ``up_to`` are met, though few tokens are neighbours. Evaluate at positions drawn alike, or counted. Every row of
    a batch has its own by ``torch.stack``.

    Raises:
        InvalidArgument: fewer positions than tokens, or more than there are.
    """
    _check(T, up_to)
    if up_to <= 4 * T:
        return torch.randperm(up_to, generator=generator)[:T].sort().values.to(device)
    drawn = torch.randint(up_to, (T,), generator=generator).unique()
    while len(drawn) < T:  # a number that is there already is drawn again, which leaves every set as likely
        more = torch.randint(up_to, (T - len(drawn),), generator=generator)
        drawn = torch.cat((drawn, more)).unique()
    return drawn.to(device)


def pose(
    T: int, up_to: int, chunks: int = 2, generator: torch.Generator | None = None, *, device: Device = None
) -> Int[Tensor, " T"]:
    """Positions of T tokens in chunks that count by one, each moved on by as much as the one before or more.

    PoSE (Zhu et al. 2024, arXiv 2309.10400, section 3): the text is cut into chunks at random places, and chunk i
    stands u_i behind where it would, u_0 = 0 and u_i uniform in {u_{i−1}, …, up_to − T}. Neighbours stay
    neighbours, and all distances below ``up_to`` are met. The paper takes the chunks from a longer text.

    The authors' code has two chunks, the first of them half of the text at most; here every cut is as likely.

    Raises:
        InvalidArgument: fewer positions than tokens, or more than there are; more chunks than tokens.
    """
    _check(T, up_to)
    at_least_one(chunks=chunks)
    if chunks > T:
        raise InvalidArgument(f"chunks={chunks} is more than T={T} tokens; each has one at least")
    cuts = torch.randperm(T - 1, generator=generator)[: chunks - 1] + 1
    skips, skip = torch.zeros(T, dtype=torch.int64), 0
    for cut in cuts.sort().values.tolist():
        new = int(torch.randint(skip, up_to - T + 1, (), generator=generator))
        skips[cut:] += new - skip
        skip = new
    return (torch.arange(T) + skips).to(device)


def coupled(
    groups: Int[Tensor, "*B T"], up_to: int, generator: torch.Generator | None = None
) -> Int[Tensor, "*B T"]:
    """Positions of tokens that share one where they belong together, each row moved on by a start of its own.

    Position Coupling (Cho et al. 2024, arXiv 2405.20671, section 3): ``groups`` numbers what belongs together, such
    as digits by their significance in both operands and the sum, and a start uniform in 0 … up_to − 1 − max(groups)
    is added while training, so that a model meets all positions that longer sums need. Evaluate at ``groups`` with
    any start. The authors leave position 0 to padding and to the begin and the end of a text; here it is one like
    others, so number groups from 1 where such tokens have 0, and put those back afterwards.

    Raises:
        InvalidArgument: floats, or groups that are not below ``up_to``.
        PositionOutOfRange: a negative group.
    """
    check(groups, "groups")
    at_least_one(up_to=up_to)
    last = groups.amax(-1, keepdim=True)
    if not int(last.max()) < up_to <= LIMIT:
        raise InvalidArgument(f"up_to={up_to} must be above max(groups)={int(last.max())}, and at most {LIMIT}")
    share = torch.rand(last.shape, dtype=torch.float64, generator=generator).to(last.device)
    return groups + (share * (up_to - last)).long()


def _check(T: int, up_to: int) -> None:
    at_least_one(T=T, up_to=up_to)
    if not T <= up_to <= LIMIT:
        raise InvalidArgument(f"up_to={up_to} must lie between T={T}, a position for each token, and {LIMIT}")
