"""Views of ALiBi: the slopes, the penalty map of each head, and the attention at each distance."""

import math
from typing import Annotated

import torch

from posenc.encodings.alibi import alibi_bias, slopes
from posenc.pictures.numbers import fraction
from posenc.pictures.view import Heatmap, Line, Lines, View, counted
from posenc.teaching.views.added import added
from posenc.teaching.views.bounds import Bounds, Length, bounded


@bounded
def bias(
    heads: Annotated[int, Bounds(1, 8)] = 4, length: Annotated[int, Bounds(2, 512)] = 8, causal: bool = False
) -> View:
    """Show the penalty for every query and key, with one map per head and the same colour scale for all maps."""
    maps = alibi_bias(heads, length).double().masked_fill(torch.full((length, length), causal).triu(1), math.nan)
    queries, keys = counted("query", length), counted("key", length)
    panels = tuple(
        Heatmap(f"head {h + 1}, slope {fraction(slope)}", maps[h], queries, keys, "signed")
        for h, slope in enumerate(slopes(heads))
    )
    return View(
        "Each head lowers the score by its own slope per step of distance"
        + (", and sees no future" if causal else ""),
        panels,
        {f"head {h} at distance {length - 1}": float(maps[h - 1, -1, 0]) for h in sorted({1, heads})},
        "import posenc\n\n"
        f"at = posenc.positions.arange({length})\n"
        f"print(posenc.ALiBi({heads}).at(at, at).bias.rows(0, {length}, {length})[0])",
    )


@bounded
def weights(heads: Annotated[int, Bounds(1, 16)] = 8, length: Length = 64) -> View:
    """Show the attention of the last token at each distance if all keys are equally relevant."""
    shares = added("alibi", heads, length - 1, seed=0).softmax(-1)
    steepest_first = sorted(zip(slopes(heads), shares, strict=True), key=lambda head: -head[0])
    lines = tuple(Line(f"slope {fraction(m)}: {row[:8].sum():.0%}", row) for m, row in steepest_first)
    steep, flat = (float(line.values[:8].sum()) for line in (lines[0], lines[-1]))
    near = min(8, length)
    which, rest = ("steepest", f", the flattest {flat:.0%}") if heads > 1 else ("one", "")
    return View(
        f"The {which} head gives the nearest {near} tokens {steep:.0%}{rest}",
        (
            Lines(
                f"weights; each head’s share for the nearest {near}",
                lines,
                counted("distance", length, unit="positions"),
                "attention weight",
                y_log=True,
                marks=((7.5, "nearest 8"),) if length > 8 else (),
            ),
        ),
        {
            f"nearest {near}, slope {fraction(m)}": share
            for (m, _), share in ((steepest_first[0], steep), (steepest_first[-1], flat))
        },
        "import torch, posenc\n"
        f"keys = posenc.positions.arange({length})\n"
        f"placed = posenc.ALiBi({heads}).at(keys[-1:], keys)\n"
        f"print(placed.bias.rows(0, 1, {length})[0, :, 0].softmax(-1).flip(-1))",
    )
