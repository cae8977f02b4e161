"""Reads the position settings of a Hugging Face config strictly.

Every position key is either used or refused with an error that names the key and the nearest valid key. A missing
base is also an error, unless the family has a default base.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.arguments import instance
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import by_rule
from posenc.integrations.huggingface.families import ALIASES, FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS, check_outer
from posenc.integrations.huggingface.language_model import path_of_text, text_config
from posenc.integrations.huggingface.model_positions import NOPE, ModelPositions
from posenc.integrations.huggingface.policies import by_layer, query_dim, scales, stated_types, windows
from posenc.integrations.huggingface.reader import Reader
from posenc.integrations.huggingface.schema import KEYS, RECURRENT
from posenc.integrations.huggingface.vision_towers import BY_KIND, added_table, alibi, laid_out

LARGEST = 2**24
"""The largest number of bytes read from a file. Longer files, such as device files, are not configs."""


def read(config: object, *, base: float | None = None, as_type: str | None = None) -> ModelPositions:
    """Return the position settings of ``config``, read from the object that transformers' class builds from it.

    Args:
        config: a transformers config object, a dict, or the path of a config.json or of its folder.
        base: the rotary base, if you know it and the config lacks a base.
        as_type: the family whose rules are used, such as ``"llama"``, if the model's code is on the Hub and the
            model encodes positions as this family does.

    Raises:
        UnknownName: a family, rope type or key does not exist; the message suggests the nearest name.
        InvalidArgument: a value is missing, is out of range, contradicts another value, or is refused by the class.
        MissingExtra: transformers is not installed.
    """
    part, path = language_part(config)
    made = None if isinstance(config, Mapping | str | Path) else text_config(config)
    reader = Reader(part, base, as_type, made)
    positions = _positions(reader, path)  # may raise a clearer error than the class, with key and fix
    if reader.refusal:
        raise reader.refusal
    if reader.model_type not in FAMILIES:
        by_rule.hold(positions.encodings(positions.max_length, "float32"), reader.made)
    if base is not None and base not in [recipe.get("base") for recipe in positions.recipes.values()]:
        raise InvalidArgument(
            f"base={base:g} has no effect, because no layer lacks a base in the config; omit base"
        )
    return positions


def language_part(config: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a copy of the language model's part of the config, and the keys that lead to this part."""
    part = mapping_of(config)
    path = path_of_text(part)
    for i, key in enumerate(path):
        around, part = part, part[key]
        instance(part, Mapping, key, "a dictionary")
        outer = around.get("model_type")
        if (isinstance(outer, str) and outer in FAMILIES) or path[:i][-1:] == ("text_config",):
            raise InvalidArgument(
                f"{key} is not allowed in the config of a language model (model_type {outer!r}); move the keys in "
                f"{key} one level up, and remove {key}"
            )
        check_outer(around, part)
        if key == "text_config":
            part = {
                **{name: around[name] for name in ("torch_dtype", "dtype") if name in around},
                "model_type": ALIASES.get(str(outer), outer),
                **part,
            }
    model_type = part.get("model_type")
    if path[-1:] != ("text_config",) and isinstance(model_type, str) and model_type in ALIASES:
        raise InvalidArgument(
            f"model_type {model_type!r} has its language model in text_config, which is missing; add text_config, "
            f"or set model_type to {ALIASES[model_type]!r} to read the language model alone"
        )
    for form in BOTH_FORMS:  # programs change these before they are read
        KEYS[form].check(form, part.get(form) or {})
    return dict(part), path


def mapping_of(config: object) -> Mapping[str, Any]:
    """Return the whole config as a mapping."""
    name = config if isinstance(config, str | Path) else "config"
    if isinstance(config, str | Path):
        config = contents(Path(config))
    elif not isinstance(config, Mapping | type) and hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise InvalidArgument(f"{name} is a {type(config).__name__}; expected a config object, a dict or a path")
    return config


def contents(path: Path, what: str = "config.json") -> Any:
    """Return the contents of a config.json, or another JSON file, given its path or its folder."""
    path = path / "config.json" if path.is_dir() else path
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST)
    except OSError as error:
        raise InvalidArgument(
            f"{path} cannot be read ({error.strerror}); pass a {what} on this machine, "
            "because posenc downloads nothing"
        ) from error
    if text.startswith(b"GGUF"):
        raise InvalidArgument(
            f"{path} is a GGUF file, which has llama.cpp's keys; pass the config.json of the model that it was "
            "converted from"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is not JSON ({error}); pass a {what}") from error


def _positions(reader: Reader, path: tuple[str, ...]) -> ModelPositions:
    """Return the position settings of the language model's part of a config, which is under ``path``."""
    rotating = laid_out if reader.family.layout else alibi if reader.get("alibi") else by_layer
    recipes, types = BY_KIND.get(reader.family.kind, rotating)(reader)
    kinds = zip(types, stated_types(reader) or types, strict=False)
    if any(recipes[name] == NOPE and kind not in RECURRENT for name, kind in kinds) and reader.scale_of_scores:
        reader.assumed.append(
            f"layers without positional encoding scale scores by {reader.scale_of_scores:.6g}: pass this as scale="
        )
    chunk = reader.get("attention_chunk_size")
    if (
        chunk
        and not reader.refusal
        and any(  # the class says why it refuses a config
            (kind == "chunked_attention") == (recipes[name] == NOPE)
            for name, kind in zip(types, stated_types(reader), strict=False)
        )
    ):
        raise InvalidArgument(
            "layer_types and no_rope_layers contradict each other: posenc reads only configs in which exactly the "
            "layers of type 'chunked_attention' rotate; correct one of the lists, or measure the model"
        )
    before, after = windows(reader)
    originals = [getattr(recipe.get("scaling"), "original_length", None) for recipe in recipes.values()]
    return ModelPositions(
        model_type=reader.model_type,
        recipes=recipes,
        layer_types=types,
        windows=before,
        window_after=after,
        query_dim=query_dim(reader),
        chunk=chunk,
        scales=scales(reader, recipes),
        original_length=next(filter(None, originals), reader.length),
        max_length=reader.length,
        assumed=tuple(dict.fromkeys(reader.assumed)),
        layout=reader.family.layout,
        added_table=added_table(reader) if reader.family.added_table else None,
        source=reader.stated,
        path=path,
    )
