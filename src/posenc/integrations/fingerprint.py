"""A fingerprint of a model's positional encoding. It is equal for any two configs or programs that encode positions
identically.

A fingerprint such as posenc1-3f9c… consists of the format's version and 32 hexadecimal digits, which are the start
of a SHA-256 hash of all layers in order. The names of layer types do not affect a fingerprint. The hash includes
the encoding, the pairing, the axes, the channels that rotate and their direction, windows, chunks, the scale of
queries, the softcap, sinks, and the description of a table that is added to the patches of an image. The hash also
includes the frequencies in turns per token, the factor of cos and sin, and the factor of scores, all rounded to
2⁻⁴⁰. Fields at their defaults are left out, so a new field in a later release changes no fingerprint. Lengths are
not included, but frequencies that depend on a length (dynamic scaling, lists of factors) are computed for the
longest allowed input, and again for requests up to the original length if those have other frequencies. Models
with the same fingerprint can still differ at other lengths: beyond the longest allowed input and, if their original
lengths differ, between these. Base and scaling are not included, because different configs can state the same
frequencies with different bases and scalings.

    from posenc.integrations import huggingface, position_table
    from posenc.integrations.fingerprint import fingerprint

    print(fingerprint(position_table.of(huggingface.read("model/config.json"))))

The format is frozen: a different choice of fields or rounding would need a new version, ``posenc2-``.
"""

import hashlib
import json
import math
import re
from dataclasses import fields
from typing import Any

from posenc.arguments import instance
from posenc.errors import InvalidArgument
from posenc.integrations.position_table import LayerTable, PositionTable

VERSION = "posenc1"
GRAIN = 2.0**40
IN_WORDS = ("base", "scaling", "float32", "unscaled", "own_attention_factor", "softmax_origin")
"""Fields that are not hashed, because they only describe other fields in words."""


def fingerprint(table: PositionTable) -> str:
    """Return the fingerprint of the position table of a config or a program."""
    instance(table, PositionTable, "table", "a PositionTable; pass position_table.of(huggingface.read(config))")
    long, short = (
        [_declared(every.layers[name]) for name in every.layer_types] for every in (table, table.short or table)
    )
    declared = json.dumps([long, table.layout, *([] if short == long else [short])], sort_keys=True)
    return f"{VERSION}-{hashlib.sha256(declared.encode()).hexdigest()[:32]}"


def is_stated(text: str) -> bool:
    """Return whether a string is a fingerprint and not a path.

    Raises:
        InvalidArgument: the fingerprint is truncated or has another format.
    """
    is_complete = re.fullmatch(rf"{VERSION}-[0-9a-f]{{32}}", text) is not None
    if not is_complete and re.match(r"posenc\d+-", text):
        raise InvalidArgument(f"{text!r} is not a fingerprint; pass {VERSION}- followed by 32 hexadecimal digits")
    return is_complete


def _declared(layer: LayerTable) -> dict[str, Any]:
    """Return the fields of a layer as integers and strings."""
    return {
        **{
            field.name: round(value * GRAIN) if type(value) is float else value
            for field in fields(layer)
            if field.name not in (*IN_WORDS, "frequencies")
            if (value := getattr(layer, field.name)) != field.default
        },
        "turns": [round(theta / (2 * math.pi) * GRAIN) for theta in layer.frequencies],
    }
