"""Linear maps from queries at position 0 to queries at other positions, and the rotations in these maps."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDING = 1e-5
"""The rounding error in the entries of a map. The map is fitted in float64 to queries that were rotated in
float32, with at least twice as many samples as channels and a condition number of a few tens."""


def least_squares(
    first: Float[Tensor, "n D"], later: Float[Tensor, "P n D"]
) -> tuple[Float[Tensor, "P D D"], float]:
    """Fit M in later = M·first by least squares; return M and the largest relative residual of any position."""
    x, y = first.double(), later.double()
    columns = torch.linalg.lstsq(x, y.permute(1, 0, 2).flatten(1)).solution  # one factorisation for all positions
    solution = columns.unflatten(1, (len(y), -1)).permute(1, 0, 2)
    rest = (x @ solution - y).norm(dim=(-1, -2)) / y.norm(dim=(-1, -2)).clamp(min=1e-30)
    return solution.transpose(-1, -2), float(rest.max())


def channel_order(first: Float[Tensor, "B D"], outputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor | None]:
    """Return indices that sort a head's channels into the order in which their projection outputs them, and the
    factor that is applied to each channel after the projection.

    Args:
        first: a head's queries of the first token, at position 0.
        outputs: the outputs of earlier modules, latest last. If no output contains the queries, as in a model that
            normalises or mixes queries, the order is unchanged and the factors are None.
    """
    unit = torch.nn.functional.normalize(first.double(), dim=0)
    for output in reversed(outputs):
        before = output.reshape(len(first), -1).double()
        alike, column = (unit.mT @ torch.nn.functional.normalize(before, dim=0)).max(-1)
        order = column.argsort()
        if float(alike.min()) > 1 - 1e-6 and bool((column[order].diff() == 1).all()):
            return order, first.double().norm(dim=0) / before[:, column].norm(dim=0)
    return torch.arange(first.shape[1]), None


@dataclass(frozen=True)
class MeasuredRotation:
    """The pairs of channels of a head that rotate.

    Args:
        pairs: the two channels of each pair.
        frequencies: radians per position for each pair; negative for the opposite direction.
        bend: by how much an angle is not proportional to the position, at the first measured position where one is
            not, in words; empty if all angles are, or if it is unknown.
        axes: the position axis along which each pair rotates; None if it is unknown.
    """

    pairs: tuple[tuple[int, int], ...]
    frequencies: tuple[float, ...]
    bend: str = ""
    axes: tuple[int, ...] | None = None

    @property
    def pairing(self) -> str:
        """The pairing: ``"interleaved"``, ``"half"``, or ``"other"`` if the two channels of a pair are not equally
        far apart in all pairs."""
        distances = {b - a for a, b in self.pairs}
        return "interleaved" if distances == {1} else "half" if len(distances) == 1 else "other"


def rotation_of(maps: Float[Tensor, "P D D"], positions: tuple[int, ...]) -> MeasuredRotation | None:
    """Return the rotation that the maps at these positions contain, or None if no pair rotates."""
    most, partner = maps.abs().amax(0).fill_diagonal_(0).max(-1)
    pairs = tuple((a, int(b)) for a, b in enumerate(partner) if most[a] > 10 * ROUNDING and a < b)
    if not pairs:
        return None
    angles = torch.stack([torch.atan2(maps[:, b, a], maps[:, a, a]) for a, b in pairs], -1)
    return MeasuredRotation(pairs, *_unwound(angles, positions))


def by_axis(rotations: Sequence[MeasuredRotation | None]) -> MeasuredRotation | None:
    """Combine the rotations along each axis. If a pair rotates along several axes, ``axes`` is None."""
    turns = [
        (pair, axis, theta)
        for axis, rotation in enumerate(rotations)
        if rotation is not None
        for pair, theta in zip(rotation.pairs, rotation.frequencies, strict=True)
    ]
    first = {pair: (axis, theta) for pair, axis, theta in sorted(turns, reverse=True)}
    if not first:
        return None
    pairs = tuple(sorted(first))
    axes, frequencies = zip(*(first[pair] for pair in pairs), strict=True)
    return MeasuredRotation(pairs, frequencies, axes=axes if len(turns) == len(pairs) else None)


def over_a_grid(maps: Float[Tensor, "P D D"], shape: tuple[int, int]) -> MeasuredRotation | None:
    """Return the rotation over an image, as measured along its first column and along its first row.

    Along each of these lines, only one axis changes. ``maps`` contains one map per patch, row by row.
    """
    laid = maps.unflatten(0, shape)
    return by_axis([rotation_of(line, tuple(range(len(line)))) for line in (laid[:, 0], laid[0])])


def _unwound(angles: Float[Tensor, "P pairs"], positions: tuple[int, ...]) -> tuple[tuple[float, ...], str]:
    """Return frequencies from angles that are known modulo 2π, and the first position at which an angle differs
    from the prediction, with the difference. The estimate from one position predicts the angle, and with it the
    number of full turns, at the next position; the first position is 0.

    An angle has an error of up to e = ROUNDING + 2⁻²³·p·θ, from its map and from the product p·θ in float32. The
    positions grow at most 2.7 times from one to the next, so that a prediction is off by less than 4·e.
    """
    estimate, bend = torch.zeros_like(angles[0]), ""
    for p, angle in zip(positions[1:], angles[1:], strict=True):
        turns = torch.round((estimate * p - angle) / (2 * torch.pi))
        theta = (angle + 2 * torch.pi * turns) / p
        off = p * (theta - estimate).abs()
        if p > 1 and not bend and bool((off > 4 * (ROUNDING + 2.0**-23 * p * theta.abs())).any()):
            bend = f"off by {float(off.max()):.1g} radians at position {p:,}"
        estimate = theta
    return tuple(estimate.tolist()), bend


@dataclass(frozen=True)
class Scores:
    """The scale, bias and mask that attention applies to the products of queries and keys.

    Args:
        scale: the factor on q·k, as the mean over queries that see several keys.
        bias: ``(H, T, T)``, 0 at every query's own key; None if there is no bias.
        follows_content: whether the bias depends on the tokens.
        window: the number of keys that the last query sees, including its own; None if it sees all keys, or if
            ``chunk`` is given.
        chunk: the largest number of keys that a query sees, if some query sees fewer keys than an earlier query, as
            at the start of a chunk; else None.
        tokens: the number of keys. Only windows narrower than this number can be measured.
        sees_later: whether a query sees a later key.
    """

    scale: float
    bias: Float[Tensor, "H T T"] | None
    follows_content: bool
    window: int | None
    chunk: int | None
    tokens: int
    sees_later: bool


def scores_of(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K T D"], scores: Float[Tensor, "B H T T"]) -> Scores:
    """Return scale, bias and mask, measured on several texts. If the bias differs between texts, it follows the
    content."""
    keys = k.repeat_interleave(max(1, q.shape[1] // k.shape[1]), 1)
    products = (q.double() @ keys.double().mT)[:, : scores.shape[1]]
    values = scores.double()
    visible = ((values > -5e3) & torch.isfinite(values)).all(0).all(0)
    products, values = (
        x - x.diagonal(dim1=-2, dim2=-1)[..., None] for x in (products, values)
    )  # softmax ignores constants
    ours, theirs = ((x - x.mean(0)).masked_fill(~visible, 0) for x in (products, values))
    size = ours.square().sum((0, -1))  # 0 in the first row of a causal model, which sees one key
    scale = (ours * theirs).sum((0, -1)) / size.clamp(min=1e-30)
    rest = theirs - scale[None, :, :, None] * ours
    follows = float(rest.norm() / theirs.norm().clamp(min=1e-30)) > 1e-3
    added = (values - scale[None, :, :, None] * products).mean(0).masked_fill(~visible, 0)
    near = 1e-4 * max(float(values.masked_fill(~visible, 0).abs().max()), 1.0)
    back = visible.tril().sum(1).tolist()
    steady = all(n == min(i + 1, back[-1]) for i, n in enumerate(back))
    return Scores(
        scale=float(scale.sum() / (size > 0).sum().clamp(min=1)),
        bias=None if follows or float(added.abs().max()) < near else added.float(),
        follows_content=follows,
        window=back[-1] if steady and back[-1] < len(back) else None,
        chunk=None if steady else max(back),
        tokens=len(back),
        sees_later=bool(visible.triu(1).any()),
    )
