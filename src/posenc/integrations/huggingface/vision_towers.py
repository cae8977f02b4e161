"""What a model adds instead of turning, in one stack of layers or two, and how towers that see turn by places."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.text import Recipe, parse
from posenc.errors import InvalidArgument
from posenc.integrations.attention_layouts import FAMILIES as LAYOUTS
from posenc.integrations.huggingface.model_positions import STILL
from posenc.integrations.huggingface.policies import Kinds, Reader
from posenc.integrations.huggingface.scaling import rope_type, scaling_from
from posenc.integrations.huggingface.schema import POSITIONS


def still(reader: Reader) -> Kinds:
    """No layer has positions."""
    return {"nope": STILL}, ("nope",) * reader.depth


def alibi(reader: Reader) -> Kinds:
    """A slope for every head."""
    if reader.get("alibi") is False:
        raise InvalidArgument(f"alibi=False in model_type {reader.model_type!r}: its learned table is not read")
    heads, exponent = reader.need(reader.family.heads), float(reader.get("alibi_bias_max") or 8)
    return {"all": Recipe("alibi").with_(heads=heads, max_exponent=exponent)}, ("all",) * reader.depth


def learned(reader: Reader) -> Kinds:
    """A table of rows for positions; what the length counts beside them are rows of no position."""
    if reader.get("position_embedding_type") not in (None, "absolute"):
        kind = reader.get("position_embedding_type")
        raise InvalidArgument(f"position_embedding_type={kind!r} is not read; only 'absolute' is")
    spare, length = reader.family.spare, int(reader.need(reader.family.length))
    rows = length if spare is None else length - reader.need(spare) - 1
    encoder = rows if reader.family.source is None else reader.need(reader.family.source)
    own = "encoder" if reader.family.decoder else "all"
    return _stacks(reader, _table(reader, own, encoder), _table(reader, "decoder", rows))


def _table(reader: Reader, stack: str, rows: int) -> Recipe:
    """The table of a stack: trained, or sines before cosines as the family's code fills it."""
    width = reader.need(reader.family.width)
    if stack not in reader.family.sinusoidal:
        return Recipe("learned").with_(num_positions=rows, width=width)
    return Recipe("sinusoidal").with_(width=width, order="block", spacing=reader.family.spacing)


def cells(reader: Reader) -> tuple[int, int] | None:
    """Rows and columns of the patches of a picture; None for a family that sees pictures of any size."""
    sides = [reader.get(key) for key in reader.family.sides]
    if sides[0] is None and reader.family.layout:
        return None
    (height, width), (rows, columns) = (
        one if isinstance(one, list | tuple) else (one, one) for one in map(reader.need, reader.family.sides)
    )
    if height < rows or width < columns:
        raise InvalidArgument(
            f"{reader.family.sides[1]}={sides[1]} is larger than {reader.family.sides[0]}={sides[0]}"
        )
    return height // rows, width // columns


def _grid(reader: Reader, rows: int, columns: int) -> Recipe:
    """A table with a row for every place of a picture."""
    return Recipe("learned-grid").with_(
        num_positions=rows, columns=columns, width=reader.need(reader.family.width), tables="grid"
    )


def learned_grid(reader: Reader) -> Kinds:
    """A table with a row for every patch of a picture; rows of other tokens, such as a class, come before it."""
    if reader.family.switch and not reader.get(reader.family.switch):
        return still(reader)
    rows, columns = cells(reader) or (1, 1)
    table = _grid(reader, rows, columns)
    return {"all": table}, ("all",) * int(reader.need(reader.family.layers))


def added(reader: Reader) -> Recipe | None:
    """The table that a tower adds besides turning by rows and columns."""
    family = reader.family
    if not family.table:
        return None
    if family.table == family.sides:
        rows, columns = cells(reader) or (1, 1)
    elif len(family.table) == 2:
        rows, columns = (int(reader.need(key)) for key in family.table)
    else:
        (key,) = family.table
        rows = columns = math.isqrt(reader.need(key))
        if rows * columns != reader.need(key):
            raise InvalidArgument(f"{key}={reader.need(key)} must be a square, of as many rows as columns")
    return _grid(reader, rows, columns)


def laid_out(reader: Reader, parameters: Mapping[str, Any]) -> Kinds:
    """Turned by rows and columns as the family's layout has it."""
    layout = LAYOUTS[str(reader.family.layout)]
    plain = {key: "default" if value == "axial" else value for key, value in parameters.items()}
    kind, share = rope_type(plain), plain.get("partial_rotary_factor")
    if kind != "default" or share not in (None, 1):
        said = f"rope_type={kind!r}" if kind != "default" else f"partial_rotary_factor={share!r}"
        raise InvalidArgument(f"{said} in model_type {reader.model_type!r}; only 'axial' of all channels is read")
    scaling = scaling_from(plain, POSITIONS)
    tiles = "window_size" in reader.family.extra and reader.get("window_size")
    if tiles or "window_attention" in (reader.get("layer_types") or ()):
        size = f" of {tiles} pixels a side" if tiles else ""
        reader.assume(f"some layers see tiles{size} alone: pass the tiles as Mask's segments")
    width, heads = reader.need(reader.family.width), reader.need(reader.family.heads)
    head_dim = int(reader.get(reader.family.head_dim) or width // heads)
    parts = math.lcm(*(cells(reader) or (1,))) if layout.in_parts else None
    recipe = parse(layout.encoding(head_dim, parts=parts))
    turning = recipe.get("rotary_dim", head_dim)
    recipe = recipe.with_(
        head_dim=head_dim, rotary_dim=turning, base=reader.rotary_base(parameters), scaling=scaling
    )
    return {"all": recipe}, ("all",) * int(reader.need(reader.family.layers))


def t5(reader: Reader) -> Kinds:
    """A bias by buckets of distances: of both sides in an encoder, of those behind in a decoder."""
    bias = Recipe("t5").with_(
        heads=reader.need(reader.family.heads),
        buckets=reader.need("relative_attention_num_buckets"),
        max_distance=reader.need("relative_attention_max_distance"),
    )
    kinds, layers = _stacks(reader, bias.with_(two_sided=True), bias)
    if reader.family.tables == "one":
        return kinds, layers
    names = tuple(f"{kind} {i}" for kind in kinds for i in range(layers.count(kind)))
    return {name: kinds[kind] for name, kind in zip(names, layers, strict=True)}, names


def deberta(reader: Reader) -> Kinds:
    """Tables of distances that queries and keys meet, as in every released DeBERTa of the second version on."""
    kinds = reader.get("pos_att_type") or ()
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    expected = {
        "relative_attention": (reader.get("relative_attention"), True),
        "position_biased_input": (reader.get("position_biased_input"), False),
        "pos_att_type": (sorted(kinds), ["c2p", "p2c"]),
    }
    for key, (said, read) in expected.items():
        if said != read:
            raise InvalidArgument(
                f"{key}={said!r} in model_type {reader.model_type!r} is not read; only {read!r} is"
            )
    stated = reader.get("max_relative_positions") or 0
    width, heads = reader.need(reader.family.width), reader.need(reader.family.heads)
    bias = Recipe("deberta").with_(
        heads=heads,
        head_dim=width // heads,
        buckets=reader.need("position_buckets"),
        max_distance=stated if stated > 0 else reader.need(reader.family.length),
    )
    build(bias, ModelShape())
    return {"all": bias}, ("all",) * int(reader.need(reader.family.layers))


def _stacks(reader: Reader, encoder: Recipe, decoder: Recipe) -> Kinds:
    count = reader.need(reader.family.layers)
    if reader.family.decoder is None:
        return {"all": encoder}, ("all",) * count
    layers = ("encoder",) * count + ("decoder",) * reader.decoder_depth
    return {"encoder": encoder, "decoder": decoder}, layers


BY_KIND: dict[str, Callable[[Reader], Kinds]] = {
    "none": still,
    "alibi": alibi,
    "learned": learned,
    "learned-grid": learned_grid,
    "t5": t5,
    "deberta": deberta,
}
"""Who reads a family of this kind; families of the others turn."""
