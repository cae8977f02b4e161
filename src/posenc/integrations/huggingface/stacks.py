"""What a model adds instead of turning, in one stack of layers or two: tables of positions, and T5's bias."""

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.policies import Kinds, Reader


def depth(reader: Reader) -> int:
    """Layers of the whole model, those of a decoder after those of its encoder."""
    own: int = reader.need(reader.family.layers)
    return own + (_decoder(reader) if reader.family.decoder else 0)


def learned(reader: Reader, length: int) -> Kinds:
    """A table of rows for positions; what the length counts beside them are rows of no position."""
    if reader.get("position_embedding_type") not in (None, "absolute"):
        kind = reader.get("position_embedding_type")
        raise InvalidArgument(f"position_embedding_type={kind!r} is not read; only 'absolute' is")
    spare = reader.family.spare
    rows = length if spare is None else length - reader.need(spare) - 1
    table = Recipe("learned").with_(num_positions=rows, width=reader.need(reader.family.width))
    return _stacks(reader, table, table)


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


def _stacks(reader: Reader, encoder: Recipe, decoder: Recipe) -> Kinds:
    count = reader.need(reader.family.layers)
    if reader.family.decoder is None:
        return {"all": encoder}, ("all",) * count
    layers = ("encoder",) * count + ("decoder",) * _decoder(reader)
    return {"encoder": encoder, "decoder": decoder}, layers


def _decoder(reader: Reader) -> int:
    """Layers of the decoder; as many as the encoder's where the config leaves them out or says null, as in T5."""
    return int(reader.get(reader.family.decoder) or reader.need(reader.family.layers))
