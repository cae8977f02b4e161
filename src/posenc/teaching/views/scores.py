"""The view of rotary scores by distance, for different q and k."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

import posenc
from posenc.pictures.numbers import plain
from posenc.pictures.view import Line, Lines, View, counted
from posenc.teaching.views.bounds import Base, Bounds, Furthest, Seed, Width, bounded, within
from posenc.teaching.views.four import spearman

Content = Literal["aligned", "random", "peaked"]
"""The choice of q and k: ``"aligned"`` (q = k = 1), ``"random"``, or ``"peaked"`` (highest at one distance)."""

DRAWN: dict[str, str] = {
    "aligned": "q = k = torch.ones(1, 1, 1, D, dtype=torch.float64)",
    "random": "q, k = (torch.randn(1, 1, 1, D, generator=seed, dtype=torch.float64) for _ in range(2))",
    "peaked": "q = torch.randn(1, 1, 1, D, generator=seed, dtype=torch.float64)\n"
    "k, _ = rope.at(torch.tensor([{peak}]), dtype=torch.float64).rotate(q, q)   # this rotation cancels at {peak}",
}
PYTHON = """\
import torch, posenc

D, seed = {head_dim}, torch.Generator().manual_seed({seed})
rope, keys = posenc.Rotary(D, pairing="half", base={base}), posenc.positions.arange({furthest} + 1)
{drawn}
q, k = rope.at(keys[-1:], keys, dtype=torch.float64).rotate(q, k.expand(1, 1, {furthest} + 1, D))
print((k @ q.mT).flatten().flip(0))"""


def scores(
    q: Float[Tensor, " D"], k: Float[Tensor, " D"], furthest: int, base: float = 10_000.0
) -> Float[Tensor, " distances"]:
    """Return the scores ⟨R(n)q, R(n−distance)k⟩ in float64 at distances 0 … ``furthest``."""
    keys = posenc.positions.arange(furthest + 1)
    placed = posenc.Rotary(q.shape[-1], pairing="half", base=base).at(keys[-1:], keys, dtype=torch.float64)
    rotated_q, rotated_k = placed.rotate(q.view(1, 1, 1, -1), k.expand(1, 1, furthest + 1, -1))
    return (rotated_k[0, 0] @ rotated_q[0, 0, 0]).flip(0)


def contents(content: Content, head_dim: int, peak: int, seed: int, base: float) -> tuple[Tensor, Tensor]:
    """Return q and k of the chosen kind in float64."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(head_dim, generator=generator, dtype=torch.float64)
    if content == "aligned":
        return torch.ones_like(q), torch.ones_like(q)
    if content == "random":
        return q, torch.randn(head_dim, generator=generator, dtype=torch.float64)
    # k = R(peak)·q, so that its rotation cancels exactly when it is `peak` positions back.
    rotary = posenc.Rotary(head_dim, pairing="half", base=base)
    return q, rotary.rotate_keys(q.view(1, 1, 1, -1), torch.tensor([peak])).flatten()


@bounded
def distance(
    head_dim: Width = 64,
    furthest: Furthest = 1024,
    content: Content = "aligned",
    peak: Annotated[int, Bounds(0, 8191)] = 300,
    seed: Seed = 0,
    base: Base = 10_000.0,
) -> View:
    """Show the score of one q and k as a function of their distance."""
    within("peak", peak if content == "peaked" else 0, 0, furthest - 1, f"; furthest is {furthest}")
    q, k = contents(content, head_dim, peak, seed, base)
    values = scores(q, k, furthest, base)
    # Values that are equal up to rounding, such as those left and right of a peak, share a rank.
    correlation = spearman(values.round(decimals=9))
    follows = "hardly follows" if abs(correlation) < 0.5 else "follows"
    titles = {
        "aligned": "For equal q and k the score falls at first, then goes up and down",
        "random": f"For this random q and k the score {follows} distance: rank correlation {plain(correlation, 2)}",
        "peaked": f"This key was built to score most at distance {peak}",
    }
    shown = sorted({0, 128, 1024, *([peak] if content == "peaked" else [])})
    return View(
        titles[content],
        (
            Lines(
                "score",
                (Line("q·k after rotation", values, "rotary"),),
                counted("distance", furthest + 1, unit="positions"),
                "score, before 1/√D",
                marks=((float(peak), "made to peak here"),) if content == "peaked" else (),
            ),
        ),
        {
            "rank correlation of score and distance": correlation,
            **{f"at distance {d}": float(values[d]) for d in shown if d <= furthest},
        },
        PYTHON.format(
            drawn=DRAWN[content].format(peak=peak), head_dim=head_dim, seed=seed, base=base, furthest=furthest
        ),
    )
