"""Reads the position tables and biases of models with an encoder, a decoder or both, and the rotary encodings of
vision towers, which rotate by rows and columns.
"""

import math
from collections.abc import Callable

import torch

from posenc.encodings.alibi import slopes
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.text import Recipe, parse
from posenc.errors import InvalidArgument
from posenc.integrations.attention_layouts import LAYOUTS
from posenc.integrations.huggingface.model_positions import NOPE
from posenc.integrations.huggingface.policies import Recipes
from posenc.integrations.huggingface.reader import Reader
from posenc.integrations.huggingface.scaling import rope_type, scaling_from
from posenc.integrations.huggingface.schema import LAST_POSITION


def no_positions(reader: Reader) -> Recipes:
    """Return the recipe of a model in which no layer has a positional encoding."""
    return {"nope": NOPE}, ("nope",) * reader.depth


def alibi(reader: Reader) -> Recipes:
    """Return the recipe of ALiBi, with a slope for each head."""
    if reader.get("alibi") is False:
        raise InvalidArgument(
            f"alibi=False is not supported in model_type {reader.model_type!r}; only alibi=True is"
        )
    heads = reader.need(reader.family.heads)
    settings = (
        {"slopes": tuple((torch.tensor(slopes(heads)).bfloat16().double() / reader.head_dim() ** 0.5).tolist())}
        if reader.family.divides_alibi
        else {"max_exponent": float(reader.get("alibi_bias_max") or 8)}
    )
    return {"all": Recipe("alibi").with_(heads=heads, **settings)}, ("all",) * reader.depth


def learned(reader: Reader) -> Recipes:
    """Return the recipe of a table with a row per position."""
    if (kind := reader.get("position_embedding_type")) not in (None, "absolute"):
        raise InvalidArgument(f"position_embedding_type={kind!r} is not supported; only 'absolute' is")
    rows, encoder_rows = reader.length, reader.get("max_source_positions")
    if encoder_rows:  # as in Whisper, where the length is the decoder's
        reader.assumed.append(f"the encoder has {encoder_rows} positions, according to max_source_positions")
    return _stacks(reader, _table(reader, "encoder", encoder_rows or rows), _table(reader, "decoder", rows))


def _table(reader: Reader, stack: str, rows: int) -> Recipe:
    """Return the recipe of the position table of ``stack``, which is ``"encoder"`` (also if the family has one
    stack) or ``"decoder"``. The table is either trained or sinusoidal, with sines before cosines.
    """
    width = reader.need(reader.family.width)
    if stack not in reader.family.sinusoidal:
        return Recipe("learned").with_(num_positions=rows, width=width)
    if key := reader.family.first_position:
        reader.assumed.append(
            f"positions start at {key} + 1 = {reader.need(key) + 1}, so pass them to the encoding"
        )
    return Recipe("sinusoidal").with_(width=width, order="block", spacing=reader.family.spacing)


def _grid(reader: Reader, rows: int, columns: int) -> Recipe:
    """Return the recipe of a table with one row per cell of a grid over the picture."""
    return Recipe("learned-grid").with_(
        num_positions=rows, columns=columns, width=reader.need(reader.family.width), tables="grid"
    )


def learned_grid(reader: Reader) -> Recipes:
    """Return the recipe of a table with a row for each patch of a picture, without rows for other tokens."""
    if reader.family.rotates == "switch" and not reader.get(reader.family.rotates_key):
        return no_positions(reader)
    return {"all": _grid(reader, *(reader.cells() or (1, 1)))}, ("all",) * reader.depth


def added_table(reader: Reader) -> Recipe:
    """Return the recipe of the table that a vision tower adds to its patches, although the tower also rotates."""
    keys = reader.family.added_table
    if keys == ("image_size", "patch_size"):
        return _grid(reader, *(reader.cells() or (1, 1)))
    sides = [int(reader.need(key)) for key in keys]
    if len(sides) == 1:
        sides = [math.isqrt(sides[0])] * 2
        if math.prod(sides) != reader.need(keys[0]):
            raise InvalidArgument(f"{keys[0]}={reader.need(keys[0])} must be the square of a whole number")
    return _grid(reader, *sides)


def laid_out(reader: Reader) -> Recipes:
    """Return the recipe of a rotation by rows and columns, in the layout of the family."""
    layout, parameters = LAYOUTS[str(reader.family.layout)], reader.rope_parameters()
    plain = {key: "default" if value == "axial" else value for key, value in parameters.items()}
    kind, share = rope_type(plain), plain.get("partial_rotary_factor")
    if kind != "default" or share not in (None, 1):
        raise InvalidArgument(
            f"rope_type={kind!r} with partial_rotary_factor={share!r} is not supported in model_type "
            f"{reader.model_type!r}, which supports only rope_type='axial' with partial_rotary_factor=1"
        )
    tiles = reader.get("window_size")
    if tiles or "window_attention" in (reader.get("layer_types") or ()):
        size = f" of {tiles} pixels per side" if tiles else ""
        reader.assumed.append(f"some layers see only their tile{size}: pass the tiles as Mask's segments")
    head_dim = int(reader.get(reader.family.head_dim) or reader.head_dim())
    recipe = parse(
        layout.encoding(head_dim, parts=math.lcm(*(reader.cells() or (1,))) if layout.in_parts else None)
    )
    return {
        "all": recipe.with_(
            head_dim=head_dim,
            rotary_dim=recipe.get("rotary_dim", head_dim),
            base=reader.rotary_base(parameters),
            scaling=scaling_from(plain, LAST_POSITION),
        )
    }, ("all",) * reader.depth


def t5(reader: Reader) -> Recipes:
    """Return the recipes of T5's bias, which has a value for each bucket of distances. In an encoder, earlier and
    later keys have separate buckets (``two_sided``).
    """
    bias = Recipe("t5").with_(
        heads=reader.need(reader.family.heads),
        buckets=reader.need("relative_attention_num_buckets"),
        max_distance=reader.need("relative_attention_max_distance"),
        softmax_scale=1.0,
        shared=False if reader.family.bias_per_layer else None,
    )
    kinds, layers = _stacks(reader, bias.with_(two_sided=True), bias)
    if not reader.family.bias_per_layer:
        return kinds, layers
    names = tuple(f"{kind} layer {i}" for kind in kinds for i in range(layers.count(kind)))
    return {name: kinds[kind] for name, kind in zip(names, layers, strict=True)}, names


def deberta(reader: Reader) -> Recipes:
    """Return the recipe of DeBERTa's tables of relative positions, one for queries and one for keys, as in all
    released v2 and v3 models."""
    for key, stated, read in (
        ("relative_attention", reader.get("relative_attention"), True),
        ("position_biased_input", reader.get("position_biased_input"), False),
        ("pos_att_type", sorted(reader.get("pos_att_type") or ()), ["c2p", "p2c"]),
    ):
        if stated != read:
            raise InvalidArgument(
                f"{key}={stated!r} is not supported in model_type {reader.model_type!r}; only {read!r} is"
            )
    stated = reader.get("max_relative_positions") or 0
    head_dim = reader.head_dim()
    bias = Recipe("deberta").with_(
        heads=reader.need(reader.family.heads),
        head_dim=head_dim,
        buckets=reader.need("position_buckets"),
        max_distance=stated if stated > 0 else reader.need(reader.family.length),
        softmax_scale=(3 * head_dim) ** -0.5,
    )
    build(bias, ModelShape())
    return {"all": bias}, ("all",) * reader.depth


def _stacks(reader: Reader, encoder: Recipe, decoder: Recipe) -> Recipes:
    if reader.family.decoder is None:
        return {"all": encoder}, ("all",) * reader.depth
    return (
        {"encoder": encoder, "decoder": decoder},
        ("encoder",) * (reader.depth - reader.decoder_depth) + ("decoder",) * reader.decoder_depth,
    )


BY_KIND: dict[str, Callable[[Reader], Recipes]] = {
    "none": no_positions,
    "alibi": alibi,
    "learned": learned,
    "learned-grid": learned_grid,
    "t5": t5,
    "deberta": deberta,
}
"""The function that reads the families of each kind. The remaining kind, ``rotary``, has no entry here."""
