"""What a position table says of a layer, as the tensors that are measured: maps of queries, and biases."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.encoding import Encoding
from posenc.encodings.rotary import rotate
from posenc.encodings.text import parse
from posenc.integrations.attention_layouts import LAYOUTS
from posenc.integrations.position_table import LayerTable

EXACT = 1e-4
"""The share of queries that rounding may leave over where a map explains them."""
ROUNDING = 1e-5
"""How far maps may lie apart: float32 rotated queries, fitted in float64 with at least twice as many samples as
channels, of a condition below some tens of 2^-24."""
COARSE = 2 * 2.0**-8
"""The same of a bias in bfloat16: the numbers of a key and of the query itself are rounded, each by 2^-8."""


def maps_of(
    layer: LayerTable,
    encoding: Encoding | None,
    positions: tuple[int, ...],
    channels: int,
    places: tuple[int, int] | None,
    layout: str,
) -> list[Float[Tensor, "P D D"]]:
    """The maps from queries at the first position to those at every one, if the first or last channels rotate.

    Args:
        encoding: of the layer's text; None if it is rotary.
        places: rows and columns of a picture whose places the positions count, in the coordinates of ``layout``.
    """
    D: Any = layer.head_dim or getattr(encoding, "head_dim", channels)
    if channels < D:
        return []
    at = _coordinates(
        max(layer.axes, default=0) + 1 if encoding is None else encoding.axes, positions, places, layout
    )
    eye = torch.eye(D)[None, :, None].expand(1, D, len(positions), D)
    if encoding is None:
        coordinates = at[list(layer.axes)].mT if at.dim() > 1 else at[:, None]
        angles = coordinates.float() * torch.tensor(layer.float32)
        sin = -angles.sin() if layer.backwards else angles.sin()
        eye = rotate(eye, angles.cos(), sin, "interleaved" if layer.pairing == "interleaved" else "half")
    elif "queries_keys" in encoding.acts_on:
        eye = encoding.at(at).rotate(eye, eye)[0]
    maps = eye[0].permute(1, 2, 0).double()
    maps = maps @ torch.linalg.inv(maps[:1])
    both = []
    for first in (0, channels - D):
        padded = torch.eye(channels, dtype=torch.float64).repeat(len(positions), 1, 1)
        padded[:, first : first + D, first : first + D] = maps
        both.append(padded * growth_of(layer, positions)[:, None, None])
    return both


def growth_of(layer: LayerTable, positions: tuple[int, ...]) -> Float[Tensor, " P"]:
    """The factors of a layer's scale of queries, relative to that at the first position; 1 for one in words."""
    if layer.query_scale is None or "(" not in layer.query_scale:
        return torch.ones(len(positions), dtype=torch.float64)
    scale = build(parse(layer.query_scale), ModelShape()).at(torch.tensor(positions)).scale
    assert scale is not None
    return (scale / scale.flatten()[0]).double().flatten()


def _coordinates(axes: int, positions: tuple[int, ...], places: tuple[int, int] | None, layout: str) -> Tensor:
    """The measured places, in the coordinates of the encoding."""
    at = torch.tensor(positions)
    if places is None or not layout:
        return at if axes == 1 else at.expand(axes, -1)
    chosen = LAYOUTS[layout]
    shape = (1,) * (len(chosen.letters) - len(places)) + places
    return chosen.positions(*shape, parts=math.lcm(*shape) if chosen.in_parts else None)


def bias_in_words(measured: Float[Tensor, "H T T"], encoding: Encoding, rounding: float) -> list[str]:
    """How a bias differs from an encoding's: a fixed one in its numbers, ``rounding`` being that of the model's
    relative to the largest; a trained one, whose numbers are the checkpoint's, in which keys share a number."""
    T = measured.shape[-1]
    table = getattr(encoding, "weight", None)
    if any(True for _ in encoding.parameters()):
        return [] if table is None or table.dim() != 2 or encoding.axes > 1 else _shared(measured, encoding, table)
    bias = encoding.at(torch.arange(T)).bias
    assert bias is not None
    expected: Float[Tensor, "H T T"] = bias.rows(0, T, T)[0]
    expected = (expected - expected.diagonal(dim1=-2, dim2=-1)[..., None]).tril()
    off = float((expected - measured.tril()).abs().max())
    return (
        []
        if off < rounding * max(1.0, float(expected.abs().max()))
        else [f"a bias that is off by {off:.1g} from it"]
    )


def _shared(measured: Float[Tensor, "H T T"], encoding: Encoding, table: Tensor) -> list[str]:
    """Whether keys have equal numbers where a trained table gives them one row of its own, and others have not."""
    T = measured.shape[-1]
    with torch.no_grad():
        table.copy_(torch.arange(1.0, 1 + len(table))[:, None].expand_as(table))
        bias = encoding.at(torch.arange(T)).bias
        assert bias is not None
        row = bias.rows(0, T, T)[0, 0]
    shown = (measured != 0).any(0) | torch.eye(T, dtype=torch.bool)
    near = float(measured.max() - measured.min()) * 1e-3
    buckets = [measured[:, shown & (row == number)] for number in row[shown].unique()]
    if any(float((bucket.amax(1) - bucket.amin(1)).max()) > near for bucket in buckets):
        return ["a bias with several numbers in one of its buckets"]
    means = torch.stack([bucket.mean(1) for bucket in buckets])
    alike = torch.cdist(means, means, p=torch.inf) < near
    return ["a bias with one number in several of its buckets"] * bool(alike.triu(1).any())
