"""The view of T5's buckets: the farther away a bucket is, the more distances share it."""

from typing import Annotated

import torch

import posenc
from posenc.pictures.view import Line, Lines, View, counted
from posenc.teaching.views.bounds import Bounds, bounded

PYTHON = """\
import torch, posenc

t5 = posenc.T5(1, buckets={buckets}, max_distance={max_distance}, two_sided={two_sided})
print(t5.bucket(-torch.arange({furthest} + 1)))    # keys behind: key position − query position is negative"""


@bounded
def shared(
    buckets: Annotated[int, Bounds(4, 512)] = 32,
    max_distance: Annotated[int, Bounds(3, 8192)] = 128,
    two_sided: bool = False,
    furthest: Annotated[int, Bounds(8, 1024)] = 160,
) -> View:
    """Show the bucket of each distance behind the query and, with ``two_sided``, of each distance ahead."""
    t5 = posenc.T5(1, buckets=buckets, max_distance=max_distance, two_sided=two_sided)
    furthest = max(furthest, max_distance)
    away = torch.arange(furthest + 1)
    behind = t5.bucket(-away)
    ahead = (Line("keys ahead", t5.bucket(away).double()),) if two_sided else ()
    lines = (Line("keys behind", behind.double(), "t5"), *ahead)
    alone = int((behind.bincount(minlength=buckets) == 1).sum())
    last = int((behind == behind[-1]).nonzero()[0])
    return View(
        f"Near distances have a bucket each; from {last} on, all share one",
        (Lines("bucket", lines, counted("distance", furthest + 1, unit="positions"), "bucket"),),
        {
            "distances with a bucket of their own": alone,
            "the last bucket begins at": last,
            "learned numbers for each head": buckets,
        },
        PYTHON.format(buckets=buckets, max_distance=max_distance, two_sided=two_sided, furthest=furthest),
    )
