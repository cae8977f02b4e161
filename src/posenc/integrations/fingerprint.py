"""A fingerprint of positions: one line that is equal for all spellings and releases with the same positions.

A fingerprint such as posenc1-3f9c… consists of the format's version and 32 hexadecimal digits of a SHA-256 over the
declarations of all layers, first to last. The names of layer types do not matter. Each declaration includes the
encoding, the pairing, the axes, which channels rotate in which direction, windows, chunks, the scale of queries,
the softcap, sinks, and an added table. It also includes the frequencies as turns per token, the factors of cos and
sin and of scores, all rounded to 2⁻⁴⁰. Fields at their defaults are left out, so new fields in later
releases change no fingerprint. Lengths are not included, but frequencies that depend on a length (dynamic scaling,
lists of factors) are computed for the longest allowed input. Frequencies are included instead of base and scaling,
so all spellings of the same frequencies give the same fingerprint.

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

from posenc.errors import InvalidArgument
from posenc.integrations.position_table import LayerTable, PositionTable

VERSION = "posenc1"
GRAIN = 2.0**40
IN_WORDS = ("base", "scaling", "float32", "unscaled", "own_attention_factor", "softmax_origin")
"""Fields that only describe other fields in words."""


def fingerprint(table: PositionTable) -> str:
    """The fingerprint of the position table of a config or a program."""
    layers = {name: _declared(layer) for name, layer in table.layers.items()}
    declared = json.dumps([[layers[name] for name in table.layer_types], table.layout], sort_keys=True)
    return f"{VERSION}-{hashlib.sha256(declared.encode()).hexdigest()[:32]}"


def is_stated(text: str) -> bool:
    """Whether a string is a fingerprint and not a path.

    Raises:
        InvalidArgument: it is truncated or has another format.
    """
    is_complete = re.fullmatch(rf"{VERSION}-[0-9a-f]{{32}}", text) is not None
    if not is_complete and re.match(r"posenc\d+-", text):
        raise InvalidArgument(f"{text!r} is not a fingerprint; pass {VERSION}- followed by 32 hexadecimal digits")
    return is_complete


def _declared(layer: LayerTable) -> dict[str, Any]:
    """A layer's fields as integers and strings."""
    values = {
        field.name: getattr(layer, field.name)
        for field in fields(layer)
        if field.name not in (*IN_WORDS, "frequencies") and getattr(layer, field.name) != field.default
    }
    return {
        **{name: round(value * GRAIN) if type(value) is float else value for name, value in values.items()},
        "turns": [round(theta / (2 * math.pi) * GRAIN) for theta in layer.frequencies],
    }
