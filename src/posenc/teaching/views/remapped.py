"""The view of the distance between every query and key, with RoPE alone and with a remapping."""

import math
from collections.abc import Callable
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

import posenc
from posenc.arguments import one_of
from posenc.encodings.encoding import Encoding
from posenc.pictures.view import Heatmap, View, counted
from posenc.remap import DCA, STRING, Remap, ReRoPE, SelfExtend
from posenc.teaching.views.bounds import Bounds, bounded, within
from posenc.workbench.extension.methods import REMAPPED as NAMES

LONGEST = 128
ROPE = posenc.Rotary(2, pairing="interleaved", scaling=posenc.scaling.Linear(LONGEST))
"""A rotation of one pair by 1/128 rad per position; the angle stays below half a turn in all texts shown."""

METHODS: dict[str, Callable[[int, int], Remap]] = {
    "self-extend": lambda trained, window: SelfExtend(ROPE, 4, window),
    "dca": lambda trained, window: DCA(ROPE, trained - window, window),
    "rerope": lambda trained, window: ReRoPE(ROPE, window),
    "string": lambda trained, window: STRING(ROPE, trained - window, max(1, window // 4)),
}

PYTHON = """\
import torch, posenc
from posenc.remap import {method}

rope = posenc.Rotary(2, pairing="interleaved", scaling=posenc.scaling.Linear({longest}))
placed = {method}(rope, {settings}).at(torch.arange({length}), dtype=torch.float64)
q, k = placed.rotate(*torch.tensor([1.0, 0.0], dtype=torch.float64).expand(2, 1, 1, {length}, 2))
cosines = posenc.scores(q, k, placed, causal=True, scale=1.0)[0, 0]
print((cosines[-1].clamp(max=1).acos() * {longest}).round(decimals=4))    # the distances of the last query"""


@bounded
def distances(
    method: str = "self-extend",
    length: Annotated[int, Bounds(8, LONGEST)] = 64,
    trained: Annotated[int, Bounds(8, LONGEST)] = 32,
    window: Annotated[int, Bounds(2, 64, below="trained")] = 16,
) -> View:
    """Show the distance at which attention sees each key, measured from scores; untrained distances are blank.

    Vectors consist of a single pair, which rotates slowly, and are equal before rotation, so their score is the
    cosine of distance · frequency. Self-Extend groups four keys. DCA's chunk size and STRING's shift are
    ``trained`` − ``window`` tokens. STRING's window is a quarter of ``window``.
    """
    within(
        "window",
        window,
        2,
        trained // 2 if method == "dca" else trained,
        "; with DCA, at most half of the trained length",
    )
    remap = METHODS[one_of("method", method, METHODS)](trained, window)
    plain, used = measured(ROPE, length), measured(remap, length)
    axes = counted("query position", length), counted("key position", length)
    untrained = [int((each >= trained).sum()) for each in (plain, used)]
    holds = remap.longest(trained)
    title = f"{NAMES[method]} keeps every distance below {trained}" + (
        "" if holds == math.inf else f", in texts of up to {holds:.0f} tokens"
    )
    if untrained[1]:
        title = f"{NAMES[method]} uses untrained distances: {untrained[1]} pairs of tokens are left blank"
    arguments = {name: f"{name}={value!r}" for name, value in remap.settings.items() if name != "rotary"}
    return View(
        title,
        tuple(
            Heatmap(name, each.where(each < trained, math.nan), *axes, "magnitude", "distance", limit=trained - 1.0)
            for name, each in (("RoPE", plain), (NAMES[method], used))
        ),
        {
            "furthest distance used": f"{used.nan_to_num().max():.4g}",
            "pairs at untrained distances": str(untrained[1]),
            "pairs at untrained distances with RoPE": str(untrained[0]),
        },
        PYTHON.format(
            method=type(remap).__name__, settings=", ".join(arguments.values()), length=length, longest=LONGEST
        ),
    )


def measured(encoding: Encoding, length: int) -> Float[Tensor, "T T"]:
    """Return the distances computed from the scores of equal vectors; NaN for keys that a query does not see."""
    placed = encoding.at(torch.arange(length), dtype=torch.float64)
    q, k = placed.rotate(*torch.tensor([1.0, 0.0], dtype=torch.float64).expand(2, 1, 1, length, 2))
    scores = posenc.scores(q, k, placed, causal=True, scale=1.0)[0, 0]
    return (scores.clamp(max=1).acos() * LONGEST).where(scores.isfinite(), math.nan).round(decimals=4)
