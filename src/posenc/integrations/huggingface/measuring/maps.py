"""Linear maps from recordings: queries at a position from those at 0, and the rotations in these maps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

UNMOVED = 1e-5
"""Below this an entry of a map is rounding: of float32 products, fitted to twice as many samples as unknowns."""


def least_squares(
    first: Float[Tensor, "n D"], later: Float[Tensor, "P n D"]
) -> tuple[Float[Tensor, "P D D"], float]:
    """M with later = M·first by least squares, and the largest share of a row that no M explains."""
    x, y = first.double(), later.double()
    columns = y.permute(1, 0, 2).flatten(1)  # one factorisation for all positions
    solution = torch.linalg.lstsq(x, columns).solution.unflatten(1, (len(y), -1)).permute(1, 0, 2)
    rest = (x @ solution - y).norm(dim=(-1, -2)) / y.norm(dim=(-1, -2)).clamp(min=1e-30)
    return solution.transpose(-1, -2), float(rest.max())


@dataclass(frozen=True)
class Rotation:
    """Which channels of a head rotate together.

    Args:
        pairs: the two channels of every pair that rotates.
        frequencies: radians per position of every pair; negative where it rotates the other way.
        pairing: ``"half"``, ``"interleaved"``, or ``"other"``.
    """

    pairs: tuple[tuple[int, int], ...]
    frequencies: tuple[float, ...]
    pairing: str


def rotation_of(maps: Float[Tensor, "P D D"], positions: tuple[int, ...]) -> Rotation | None:
    """The pairs of a map that rotates, or None for one that is the same at every position."""
    D = maps.shape[-1]
    apart = maps.abs().amax(0) * (1 - torch.eye(D, dtype=maps.dtype))
    most, partner = apart.max(-1)
    pairs = tuple((a, int(partner[a])) for a in range(D) if most[a] > 10 * UNMOVED and a < partner[a])
    if not pairs:
        return None
    angles = torch.stack([torch.atan2(maps[:, b, a], maps[:, a, a]) for a, b in pairs], -1)
    return Rotation(pairs, tuple(_unwound(angles, positions)), pairing_of(pairs))


def pairing_of(pairs: tuple[tuple[int, int], ...]) -> str:
    """``"half"`` if all partners have one distance, ``"interleaved"`` for neighbours, else ``"other"``."""
    distances = {b - a for a, b in pairs}
    first, last = pairs[0][0], max(b for _, b in pairs)
    if (distances == {1} and len(pairs) > 1) or last - first == 1:
        return "interleaved"
    return "half" if len(distances) == 1 else "other"


def over_a_grid(
    maps: Float[Tensor, "P D D"], shape: tuple[int, int]
) -> tuple[Rotation, tuple[int, ...] | None] | None:
    """The pairs that rotate over a picture, and the axis of each: None for pairs that rotate by both.

    ``maps`` are of places row by row; along the first column and along the first row each rotates by one axis.
    """
    laid = maps.unflatten(0, shape)
    along = [rotation_of(one, tuple(range(len(one)))) for one in (laid[:, 0], laid[0])]
    by_axis: dict[tuple[int, int], dict[int, float]] = {}
    for axis, one in enumerate(along):
        for pair, theta in zip(*((), ()) if one is None else (one.pairs, one.frequencies), strict=True):
            by_axis.setdefault(pair, {})[axis] = theta
    if not by_axis:
        return None
    pairs = tuple(sorted(by_axis))
    rotation = Rotation(pairs, tuple(next(iter(by_axis[pair].values())) for pair in pairs), pairing_of(pairs))
    alone = all(len(by_axis[pair]) == 1 for pair in pairs)
    return rotation, tuple(next(iter(by_axis[pair])) for pair in pairs) if alone else None


def uneven(maps: Float[Tensor, "P D D"], shape: tuple[int, int]) -> float:
    """How far the map of a place in a grid is from its row's map followed by its column's."""
    laid = maps.unflatten(0, shape)
    return float((laid[:, :1] @ laid[:1] - laid).abs().max())


def _unwound(angles: Float[Tensor, "P pairs"], positions: tuple[int, ...]) -> list[float]:
    """Frequencies from angles known up to whole turns, each position settling the turns of the next."""
    estimate = torch.zeros_like(angles[0])
    for p, angle in zip(positions, angles, strict=True):
        if p:
            turns = torch.round((estimate * p - angle) / (2 * torch.pi))
            estimate = (angle + 2 * torch.pi * turns) / p
    return [float(theta) for theta in estimate]


@dataclass(frozen=True)
class Scores:
    """Scale, bias and mask of the products of queries and keys.

    Args:
        scale: the factor on q·k, the mean over rows that see several keys.
        bias: ``(H, T, T)``, 0 at every query's own key; None if there is none.
        follows_content: whether the bias depends on the tokens.
        causal: whether no query sees a later key.
        window: how many keys back the last query sees, itself included; None for all.
        tokens: how many keys there were, so that no wider window shows.
        chunked: whether some queries see less far back than others of the same layer, as in chunks.
    """

    scale: float
    bias: Float[Tensor, "H T T"] | None
    follows_content: bool
    causal: bool
    window: int | None
    chunked: bool
    tokens: int


def scores_of(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K T D"], scores: Float[Tensor, "B H T T"]) -> Scores:
    """Scale, bias and mask from several texts; a bias that all share does not depend on content."""
    keys = k.repeat_interleave(max(1, q.shape[1] // k.shape[1]), 1)
    products = (q.double() @ keys.double().transpose(-1, -2))[:, : scores.shape[1]]
    values = scores.double()
    visible = (values > -5e3).all(0).all(0)
    visible &= torch.isfinite(values).all(0).all(0)
    products, values = (x - x.diagonal(dim1=-2, dim2=-1)[..., None] for x in (products, values))  # of no weight
    ours, theirs = ((x - x.mean(0)).masked_fill(~visible, 0) for x in (products, values))
    size = ours.square().sum((0, -1))  # none in the first row of a causal model, which sees one key
    scale = (ours * theirs).sum((0, -1)) / size.clamp(min=1e-30)
    mean = float(scale.sum() / (size > 0).sum().clamp(min=1))
    rest = theirs - scale[None, :, :, None] * ours
    follows = float(rest.norm() / theirs.norm().clamp(min=1e-30)) > 1e-3
    added = (values - scale[None, :, :, None] * products).mean(0).masked_fill(~visible, 0)
    largest = float(values[:, :, visible].abs().max()) if bool(visible.any()) else 0.0
    bias = None if follows or float(added.abs().max()) < 1e-4 * max(largest, 1.0) else added.float()
    T = len(visible)
    back = [int(visible[i, : i + 1].sum()) for i in range(T)]
    window = back[-1] if back[-1] < T else None
    steady = all(n == min(i + 1, back[-1]) for i, n in enumerate(back))
    causal = not bool(visible.triu(1).any())
    return Scores(mean, bias, follows, causal, None if not steady else window, not steady, T)


def source(
    q: Float[Tensor, "n D"], before: Float[Tensor, "n D"], rotated: list[int]
) -> tuple[list[int], float] | None:
    """Which channel each channel of queries at position 0 was before, and how much longer rotated ones became.

    None if they are no plain selection of those before: they were normed or mixed in between.
    """
    x, y = q.double(), before.double()
    lengths = x.norm(dim=0), y.norm(dim=0).clamp(min=1e-30)
    alike = (x.T @ y) / (lengths[0].clamp(min=1e-30)[:, None] * lengths[1])
    best, order = alike.max(-1)
    if float(best.min()) < 1 - 1e-6 or len(set(order.tolist())) < len(order):
        return None
    ratio = (lengths[0] / lengths[1][order])[rotated]
    return order.tolist(), float(ratio.mean())
