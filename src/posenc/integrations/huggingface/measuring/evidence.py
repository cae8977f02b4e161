"""Computes the effects that a position table implies, for comparison with measurements: linear maps of queries,
and biases on scores.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.encoding import Encoding
from posenc.encodings.rotary import Pairing, rotate
from posenc.encodings.t5 import T5
from posenc.encodings.text import parse
from posenc.integrations.attention_layouts import LAYOUTS
from posenc.integrations.position_table import LayerTable

EXACT = 1e-4
"""The largest relative residual of a fit at which one linear map still explains all queries, up to rounding."""
COARSE = 2 * 2.0**-8
"""The tolerance for a bias in bfloat16, relative to its largest entry. Each entry is the difference of two rounded
numbers."""


def maps_of(
    layer: LayerTable, positions: tuple[int, ...], channels: int, places: tuple[int, int] | None, layout: str
) -> Float[Tensor, "P D D"] | None:
    """Return the linear maps from queries at the first position to queries at each position.

    The result is None if queries have fewer channels than the layer's head_dim.

    Args:
        places: the numbers of rows and columns of patches in an image, if positions are indices of patches;
            ``layout`` then determines the coordinates of each patch.
    """
    maps = torch.eye(channels, dtype=torch.float64).repeat(len(positions), 1, 1)
    if layer.encoding == "rotary":
        D: Any = layer.head_dim
        if channels < D:
            return None
        at = torch.tensor(positions).expand(len(layer.sections), -1)
        if places is not None and layout:
            chosen = LAYOUTS[layout]
            shape = (1,) * (len(chosen.letters) - len(places)) + places
            at = chosen.positions(*shape, parts=math.lcm(*shape))
        angles = at[list(layer.axes)].mT.float() * torch.tensor(layer.float32) * (-1.0 if layer.backwards else 1.0)
        unit = torch.eye(D)[:, None].expand(D, len(positions), D)
        pairing: Pairing = "interleaved" if layer.pairing == "interleaved" else "half"
        turns = rotate(unit, angles.cos(), angles.sin(), pairing).permute(1, 2, 0).double()
        first = channels - D if layer.query_dim else 0
        maps[:, first : first + D, first : first + D] = turns @ torch.linalg.inv(turns[:1])
    return maps * growth_of(layer, positions)[:, None, None]


def growth_of(layer: LayerTable, positions: tuple[int, ...]) -> Float[Tensor, " P"]:
    """Return a layer's query scale at each position, relative to the scale at the first position. All values are 1
    if the layer has no query scale that depends on positions.
    """
    if layer.query_scale is None or "(" not in layer.query_scale:
        return torch.ones(len(positions), dtype=torch.float64)
    scale: Any = build(parse(layer.query_scale), ModelShape()).at(torch.tensor(positions)).scale
    return (scale / scale.flatten()[0]).double().flatten()


def bias_in_words(measured: Float[Tensor, "H T T"], encoding: Encoding, rounding: float) -> list[str]:
    """Describe how a measured bias differs from an encoding's bias, or return an empty list if they are equal.

    A fixed bias is compared entry by entry with tolerance ``rounding`` relative to the largest entry. For a
    trained bias, whose values are in the checkpoint, only the buckets are compared: each bucket must have its own
    value.
    """
    at = torch.arange(measured.shape[-1])
    if isinstance(encoding, T5):
        return _shared(measured, encoding.bucket(at - at[:, None]))
    bias: Any = encoding.at(at).bias
    expected: Float[Tensor, "H T T"] = bias.rows(0, len(at), len(at))[0]
    expected = (expected - expected.diagonal(dim1=-2, dim2=-1)[..., None]).tril()
    off = float((expected - measured.tril()).abs().max())
    most = rounding * max(1.0, float(expected.abs().max()))
    return [] if off < most else [f"a bias that is off by {off:.1g} from the expected bias"]


def _shared(measured: Float[Tensor, "H T T"], bucket: Int[Tensor, "T T"]) -> list[str]:
    """Describe how a trained bias deviates from one distinct value per bucket, or return an empty list if it does
    not."""
    shown = (measured != 0).any(0) | torch.eye(len(bucket), dtype=torch.bool)
    near = float(measured.max() - measured.min()) * 1e-3
    buckets = [measured[:, shown & (bucket == number)] for number in bucket[shown].unique()]
    if any(float((numbers.amax(1) - numbers.amin(1)).max()) > near for numbers in buckets):
        return ["a bias with several numbers in one of its buckets"]
    means = torch.stack([numbers.mean(1) for numbers in buckets])
    return ["a bias with one number in several of its buckets"] * bool(
        (torch.pdist(means, p=torch.inf) < near).any()
    )
