"""The view of the bias that an encoding adds to the scores at each distance, for each head."""

from typing import Annotated

import torch

import posenc
from posenc.encodings.catalogue import ModelShape, canonical_text
from posenc.errors import InvalidArgument
from posenc.pictures.palette import style
from posenc.pictures.view import Line, Lines, View, counted
from posenc.teaching.views.bounds import Bounds, Furthest, Seed, bounded
from posenc.teaching.views.layer import python, visible

HEAD_DIM = 8


@bounded
def distance(
    encoding: str = "kerple", heads: Annotated[int, Bounds(1, 8)] = 4, furthest: Furthest = 256, seed: Seed = 0
) -> View:
    """Show the bias of an untrained encoding at each distance, if the bias depends only on distance."""
    encoding = canonical_text(encoding)
    values = added(encoding, heads, furthest, seed)
    lines = tuple(Line(f"head {h + 1}", row) for h, row in enumerate(values))
    return View(
        f"What {style(encoding).label} adds at each distance",
        (Lines("bias", lines, counted("distance", furthest + 1, unit="positions"), "added to the score"),),
        {f"head {h + 1} at distance {furthest}": float(row[-1]) for h, row in enumerate(values)},
        PYTHON.format(seed=seed, furthest=furthest, encoding=python(encoding, _shape(heads, furthest), 1.0)),
    )


def _shape(heads: int, furthest: int) -> ModelShape:
    return ModelShape(HEAD_DIM * heads, heads, HEAD_DIM, furthest + 1)


PYTHON = """\
import torch, posenc

torch.manual_seed({seed})
encoding, keys = {encoding}, posenc.positions.arange({furthest} + 1)
bias = encoding.at(keys[-1:], keys, dtype=torch.float64)[0].bias
print(bias.rows(0, 1, len(keys))[0, :, 0, 0])    # every head, at the furthest distance"""


@torch.no_grad()
def added(encoding: str, heads: int, furthest: int, seed: int) -> torch.Tensor:
    """Return the bias at distances 0 … ``furthest`` in float64, of shape ``(heads, furthest + 1)``."""
    layer = visible(encoding, _shape(heads, furthest), 1.0, seed)
    if layer.acts_on != ("bias",) or layer.uses_queries or layer.needs_content or layer.axes > 1:
        raise InvalidArgument(
            f"encoding={encoding!r} has no bias that depends only on distance; use kerple, fire, t5 or alibi"
        )
    keys = posenc.positions.arange(furthest + 1)
    bias = layer.at(keys[-1:], keys, dtype=torch.float64)[0].bias
    assert bias is not None
    return bias.rows(0, 1, furthest + 1)[0, :, 0].double().flip(-1)
