"""Views of RoPE's rotation: of a query and key that are shifted together, of every pair, and of both pairings."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

import posenc
from posenc.encodings.rotary import half_from_interleaved, rotate
from posenc.pictures.numbers import fixed, plain
from posenc.pictures.view import Arrow, Grip, Heatmap, Plane, View, counted, labelled
from posenc.scaling.scaling import TWO_PI
from posenc.teaching.views.bounds import FAR, Base, Bounds, Position, Seed, bounded

Q, K = (1.5, 0.5), (0.8, 1.0)
"""The vectors q and k of the lessons. Their score is 1.700 at offset 0, and −1.100 at offset 2 if one step rotates
by an eighth of a turn.
"""

Turn = Literal["eighth", "radian"]
STEPS: dict[Turn, Decimal] = {"eighth": TWO_PI / 8, "radian": Decimal(1)}
"""The radians per position: π/4 as in the lessons, or 1 as in the fastest pair of every RoPE model."""

SHIFT_PYTHON = """\
import math, torch, posenc

rope = posenc.Rotary(2, pairing="interleaved"{scaling})    # one pair
placed = rope.at(torch.tensor([{m}]), torch.tensor([{n}]), dtype=torch.float64)
q, k = (torch.tensor(x, dtype=torch.float64).view(1, 1, 1, 2) for x in ({q}, {k}))
q, k = placed.rotate(q, k)
print((q * k).sum())"""
SCALINGS: dict[str, str] = {"eighth": ", scaling=posenc.scaling.Linear(4 / math.pi)", "radian": ""}

PAIRS_PYTHON = """\
import torch, posenc

rope = posenc.Rotary({head_dim}, pairing="interleaved", base={base})
q, k = torch.randn(2, 1, 1, 1, {head_dim}, generator=torch.Generator().manual_seed({seed}))
placed = rope.at(torch.tensor([{m}]), torch.tensor([{n}]))
q, k = placed.rotate(q, k)
print((q * k).sum())    # the score, which is the sum over all pairs"""

PAIRINGS_PYTHON = """\
import torch, posenc

x = torch.randn(1, 1, 1, {head_dim}, generator=torch.Generator().manual_seed(0))
p, order = torch.tensor([{position}]), [*range(0, {head_dim}, 2), *range(1, {head_dim}, 2)]
half, _ = posenc.Rotary({head_dim}, pairing="half").at(p).rotate(x, x)
inter, _ = posenc.Rotary({head_dim}, pairing="interleaved").at(p).rotate(x, x)
permuted, _ = posenc.Rotary({head_dim}, pairing="half").at(p).rotate(x[..., order], x)
print((half - inter).abs().max(), (permuted - inter[..., order]).abs().max())"""


@bounded
def shift_both(
    m: Annotated[int, Bounds(0, 2**30)] = 1,
    offset: Annotated[int, Bounds(-(2**30), 2**30)] = 2,
    turn: Turn = "eighth",
) -> View:
    """Show q at position m and k at n = m + offset in one rotated plane, with the score at m = 0 for comparison.

    The offset is key − query. Shifting both positions does not change the score. With the default ``turn``, the
    score at offset 2 is −1.100; a rotation in the wrong direction would give +1.100.
    """
    n = m + offset
    q, k = torch.tensor(Q, dtype=torch.float64), torch.tensor(K, dtype=torch.float64)
    q_m, k_n = rotate_pair(q, m, turn), rotate_pair(k, n, turn)
    angle = math.acos(float(q_m @ k_n / q.norm() / k.norm()))
    k_reference, k_tips = rotate_pair(k, offset, turn), tips(k, range(17), m, turn)
    arrows = (
        arrow("unrotated q", q, role="query", ghost=True),
        arrow("unrotated k", k, role="key", ghost=True),
        arrow(f"k at {offset} if q is at 0", k_reference, role="reference"),
        arrow(f"q at m = {m}", q_m, role="query", grip=Grip("m", m, tips(q, range(17), 0, turn)), word=f"dog {m}"),
        arrow(f"k at n = {n}", k_n, role="key", grip=Grip("offset", offset, k_tips), word=f"man {n}", along=("m",)),
    )
    return View(
        title=f"The score depends only on the offset n − m = {offset}",
        panels=(Plane("one pair of channels", arrows, 2.0, arcs=((3, 4), (0, 2))),),
        readouts={
            "unrotated q·k": float(q @ k),
            "score (rotated q·k)": float(q_m @ k_n),
            "reference, m = 0": float(q @ k_reference),
            "angle of either arc": f"{math.degrees(angle):.0f}°",
        },
        python=SHIFT_PYTHON.format(scaling=SCALINGS[turn], m=m, n=n, q=list(Q), k=list(K)),
    )


def arrow(name: str, tip: Tensor, **given: Any) -> Arrow:
    """Return an arrow to the tip of a vector; other arguments are passed to ``Arrow``."""
    return Arrow(name, *tip.tolist(), **given)


def tips(vector: Tensor, values: Sequence[int], after: int, turn: Turn) -> tuple[tuple[float, float, float], ...]:
    """Return ``(value, x, y)`` for every value, with the tip (x, y) of the vector at position ``after`` + value."""
    points = rotate_pair(vector, [after + value for value in values], turn).tolist()
    return tuple((float(value), x, y) for value, (x, y) in zip(values, points, strict=True))


def rotate_pair(vector: Tensor, positions: int | list[int], turn: Turn) -> Tensor:
    """Rotate a vector of one pair by ``STEPS[turn]`` radians per position; the shape is ``(2,)`` or ``(T, 2)``."""
    step = STEPS[turn]
    clock = posenc.Clock(posenc.scaling.Frequencies((step,), (float(step),)))
    cos, sin = clock(torch.tensor(positions), torch.float64)
    return rotate(vector, cos, sin, "interleaved")


@bounded
def every_pair(
    m: Annotated[int, Bounds(0, FAR - 4096)] = 1,
    offset: Annotated[int, Bounds(0, 4096)] = 2,
    head_dim: Annotated[int, Bounds(2, 64)] = 16,
    base: Base = 10_000.0,
    seed: Seed = 0,
) -> View:
    """Show how far each channel pair rotates, in a random q at position m and a random k at m + offset."""
    rope = posenc.Rotary(head_dim, pairing="interleaved", base=base)
    q, k = torch.randn(2, 1, 1, 1, head_dim, generator=torch.Generator().manual_seed(seed))
    turned = rope.at(torch.tensor([m]), torch.tensor([m + offset])).rotate(q, k)
    before, after = ([x.flatten().unflatten(0, (-1, 2)) for x in vectors] for vectors in ((q, k), turned))
    longest = float(torch.stack([x.norm(dim=-1) for x in before]).max())
    limit = math.ceil(10 * longest + 0.1) / 10
    shares = (after[0] * after[1]).sum(-1)
    panels = tuple(
        Plane(
            f"pair {i}: {plain(float(share), 2)}",
            (
                arrow("q", before[0][i], role="query", ghost=True),
                arrow("k", before[1][i], role="key", ghost=True),
                arrow("q rotated", after[0][i], role="query"),
                arrow("k rotated", after[1][i], role="key"),
            ),
            limit,
        )
        for i, share in enumerate(shares)
    )
    return View(
        title=f"The shares of {head_dim // 2} pairs add up to the score {fixed(float(shares.sum()))}",
        panels=panels,
        readouts={
            "score, unrotated": float((q * k).sum()),
            "score, rotated": float(shares.sum()),
            "offset n − m": str(offset),
        },
        python=PAIRS_PYTHON.format(head_dim=head_dim, base=base, seed=seed, m=m, n=m + offset),
    )


@bounded
def pairings(position: Position = 3, head_dim: Annotated[int, Bounds(2, 64)] = 6) -> View:
    """Show a vector rotated with each pairing, and the permuted vector rotated with the pairing "half"."""
    x = torch.randn(1, 1, 1, head_dim, generator=torch.Generator().manual_seed(0))
    at, order = torch.tensor([position]), half_from_interleaved(head_dim)
    rope = posenc.Rotary(head_dim, pairing="half")
    half, inter = rope.rotate_keys(x, at), posenc.Rotary(head_dim, pairing="interleaved").rotate_keys(x, at)
    permuted = rope.rotate_keys(x[..., order], at)
    rows = {
        "x": x,
        "interleaved": inter,
        "half": half,
        "half of permuted x": permuted,
        "interleaved, permuted": inter[..., order],
    }
    return View(
        title="The last two rows are equal: the pairings differ only by a permutation",
        panels=(
            Heatmap(
                f"position {position}",
                torch.stack([row.flatten() for row in rows.values()]),
                labelled("rotated as", rows),
                counted("channel", head_dim),
                "signed",
            ),
        ),
        readouts={
            "largest difference, half and interleaved": float((half - inter).abs().max()),
            "the same after permuting channels": float((permuted - inter[..., order]).abs().max()),
        },
        python=PAIRINGS_PYTHON.format(head_dim=head_dim, position=position),
    )
