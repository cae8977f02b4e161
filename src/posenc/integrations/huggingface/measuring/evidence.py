"""Computes the effects that a position table implies, for comparison with measurements: linear maps of queries,
and biases on scores.
"""

import math
from dataclasses import dataclass, field
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
from posenc.integrations.huggingface.measuring.inputs import READ
from posenc.integrations.huggingface.measuring.maps import ROUNDING, channel_order
from posenc.integrations.huggingface.measuring.record import Attention
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.position_table import LayerTable

EXACT = 1e-4
"""The largest relative residual of a fit at which one linear map still explains all queries, up to rounding."""
COARSE = 2 * 2.0**-8
"""The tolerance for a bias in bfloat16, relative to its largest entry. Each entry is the difference of two rounded
numbers."""


@dataclass(frozen=True)
class Table:
    """A table of position embeddings that the model read: its module, all its rows, and the row of position 0.

    If ``resized``, the model interpolated rows for an image of a different size.
    """

    module: str
    weight: Float[Tensor, "N C"] = field(compare=False, repr=False)
    first: int
    resized: bool = False

    def describe(self) -> str:
        return (
            f"a {'trained' if self.weight.requires_grad else 'fixed'} table of {len(self.weight) - self.first} rows"
            f"{', resized' * self.resized}"
        )

    def beside(self, text: str) -> str:
        """Compare this table with ``text``, the description that was read from the config. If they agree, return
        ``text``; if not, return a description of this table.
        """
        recipe, weight = parse(text), self.weight[self.first :].detach().float().cpu()
        if recipe.name != "sinusoidal":
            expected = recipe.get("num_positions", 0) * recipe.get("columns", 1)
            return text if self.weight.requires_grad and len(weight) == expected else self.describe()
        placed = build(recipe, ModelShape()).at(torch.arange(self.first, len(self.weight)))
        off = float((placed.embed(torch.zeros_like(weight)[None])[0] - weight).abs().max())
        # some code computes the angles in float32
        return (
            text
            if off < len(weight) * 2.0**-23 + ROUNDING
            else f"{self.describe()} that is off by {off:.1g} from the expected table"
        )


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


def is_decoder(positions: ModelPositions) -> bool:
    """Return whether this is the config of a decoder, in which no token sees a later one."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as DECODERS

    return bool(
        positions.model_type in DECODERS
        and positions.source.get("is_decoder", True)
        and positions.source.get("is_causal", True)
        and not positions.source.get("is_encoder_decoder")
        and positions.source.get("use_bidirectional_attention") not in (True, "all")
    )


def untested_windows(positions: ModelPositions) -> str:
    """Return the windows and chunks that are not narrower than the measured texts, in words."""
    sizes = {w for w in (*positions.windows, positions.chunk) if w and READ <= w < positions.max_length}
    return f"windows of {', '.join(f'{w:,}' for w in sorted(sizes))} tokens were not tested" * bool(sizes)


def keys_in_words(
    plain: Attention, keys: Float[Tensor, "P n D"], turns: Float[Tensor, "P D D"], positions: tuple[int, ...]
) -> str:
    """Describe how keys differ from keys that positions change as they change queries, or return an empty text.

    Queries and keys at position 0 equal an output of a projection or a norm, unless they are rotated for another
    position or changed in other ways. Positions −1 and 1 are tried.

    Args:
        plain: the layer's attention over several texts.
        keys: keys with the same content at every position.
        turns: the map from queries at the first position to those at each position, without a query scale.
    """
    off = (keys - keys[0] @ turns.mT).norm(dim=(1, 2)) / keys.norm(dim=(1, 2)) > EXACT
    if bool(off.any()):
        return f"keys that position {positions[int(off.int().argmax())]:,} changes differently from queries"
    undo = {0: turns[0], 1: turns[:2][-1], -1: turns[:2][-1].mT}
    first, second = (
        next((n for n, m in undo.items() if channel_order(x.double() @ m, plain.outputs)[1] is not None), 0)
        for x in (plain.q[:, 0, 0], plain.k[:, 0, 0])
    )
    return f"keys that are rotated for the {'next' if second > first else 'previous'} position" * (first != second)


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
    return (
        []
        if off < rounding * max(1.0, float(expected.abs().max()))
        else [f"a bias that is off by {off:.1g} from the expected bias"]
    )


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
