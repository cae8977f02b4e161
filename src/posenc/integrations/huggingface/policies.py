"""Determines from a transformers config which layers rotate, with which base, and which layers scale their
queries.

Each line gives a rule, and families whose configs follow it:

rope_parameters by layer type, None for no positional encoding      Beam, Gemma 3 and 4
no_rope_layers, in which 1 means that a layer rotates               SmolLM3, Llama 4
rope_scaling_layers, the layers that use the scaling                Molmo 2
rope dictionaries named main and compress, by layer_types           DeepSeek-V4
layer_rope_theta, the base of each layer, or 0 for no rotation      Granite-SWA, Muse
only sliding layers rotate                                          Cohere 2, EXAONE 4
position_embedding_type, with "rope" if attention layers rotate     Granite hybrid
attn_layer_indices, the indices of the attention layers             Bamba
rope_theta, without which no layer rotates                          Olmo hybrid
cross_attention_layers, the indices of layers that do not rotate    Llama 3.2 Vision
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config_class import class_form, class_keys
from posenc.integrations.huggingface.family import SEEN
from posenc.integrations.huggingface.model_positions import NOPE
from posenc.integrations.huggingface.reader import Reader
from posenc.integrations.huggingface.scaling import ORIGINAL
from posenc.integrations.huggingface.schema import FULL, KEYS, NEAR, RECURRENT, ROPE
from posenc.scaling import Default

Recipes = tuple[dict[str, Recipe], tuple[str, ...]]


def by_layer(reader: Reader) -> Recipes:
    """Return a recipe for each layer type, and the type of each layer."""
    rule, key, count, types = reader.family.rotates, reader.family.rotates_key, reader.depth, stated_types(reader)
    parameters = reader.rope_parameters()
    if rule == "compression":
        return _compressed(reader, parameters, types)
    if any(isinstance(value, Mapping) or name in types for name, value in parameters.items()) or (
        parameters and not reader.refusal and _has_types(reader.model_type)
    ):
        return _typed(reader, parameters, types)
    stated = reader.get(key) if rule == "switch" else parameters.get("rope_theta")
    if (rule == "switch" and stated != "rope") or (rule == "base" and stated is None):
        reader.assumed.append(f"no layer has a positional encoding, because {key} is {stated!r}")
        return {"nope": NOPE}, ("nope",) * count
    recipe = reader.rotary(parameters)
    scaled = reader.get(key) if rule == "scaled" else None
    if scaled is not None and recipe.get("scaling") != Default() and not set(range(count)) <= {*scaled}:
        return (
            {"scaled": recipe, "unscaled": recipe.with_(scaling=Default())},
            tuple("scaled" if i in scaled else "unscaled" for i in range(count)),
        )
    bases = _bases(reader, types, recipe.get("base"))
    if bases is None:
        return {"all": recipe}, ("all",) * count
    used = sorted({*bases} - {0.0}) or [recipe.get("base")]
    names = {base: "rotary" if len(used) == 1 else f"base {base:g}" for base in used} | {0.0: "nope"}
    recipes = {names[base]: recipe.with_(base=base) for base in used}
    if rule != "bases" or not all(bases):
        recipes["nope"] = NOPE
    return recipes, tuple(names[base] for base in bases)


def _compressed(reader: Reader, parameters: Mapping[str, Any], types: tuple[str, ...]) -> Recipes:
    """Return the recipes of DeepSeek-V4, some of whose layers also see earlier tokens in compressed form."""
    if reader.refusal:  # only a config object has both dictionaries
        return {"nope": NOPE}, ("nope",) * reader.depth
    kinds = tuple("main" if kind == NEAR else "compress" for kind in types)
    entries = {
        kind: KEYS["rope_parameters"].check(f"rope_parameters[{kind!r}]", parameters.get(kind))
        for kind in ("main", "compress")
    }
    if "compress" in kinds:
        reader.assumed.append(
            "layers of type 'compress' see tokens before their window as compressed groups, each at the position "
            "of its first token"
        )
    reader.assumed.append(
        "attention outputs are rotated back by their query's position: use PlacedRotation.unrotate"
    )
    head_dim, share = reader.need("head_dim"), "partial_rotary_factor"
    return {
        kind: reader.rotary(entry, int(head_dim * ROPE[share].check(share, entry.get(share))))
        for kind, entry in entries.items()
    }, kinds


def _bases(reader: Reader, types: tuple[str, ...], base: float) -> list[float] | None:
    """Return a list of each layer's base, in which 0 means no rotation. Return None instead of a list if all layers
    rotate with the base of the rope dictionary.
    """
    rule, key, count = reader.family.rotates, reader.family.rotates_key, reader.depth
    if rule in ("flags", "bases"):
        listed = reader.get(key) or [base] * count
        if len(listed) != count:
            raise InvalidArgument(
                f"{key} has {len(listed)} entries, but {reader.family.layers} is {count}; list every layer"
            )
        return [float(value) if rule == "bases" else base * bool(value) for value in listed]
    if rule in ("indices", "others"):
        rotates = [(i in (reader.get(key) or ())) == (rule == "indices") for i in range(count)]
    elif rule == "windows" and reader.get("sliding_window") is not None:
        rotates = [kind == NEAR for kind in types]
    elif rule == "switch" or RECURRENT & set(types):
        rotates = [kind not in RECURRENT for kind in types or reader.need("layer_types")]
    else:
        return None
    return [base * turns for turns in rotates]


def windows(reader: Reader) -> tuple[tuple[int | None, ...], int]:
    """Return, for each layer, the number of tokens that a token sees up to and including itself (None for all), and
    one number for all layers: how many later tokens a token sees in a window.
    """
    family, both = reader.family, reader.get("local_attention")
    stated = reader.get("sliding_window") if both is None else both // 2  # half of the tokens on each side
    by_types = "layer_types" in class_keys(reader.model_type)
    if (both is None and "sliding_window" not in class_keys(reader.model_type)) or not (stated or both):
        types = stated_types(reader) if by_types else ()
        if NEAR in types or (stated == 0 and not types and family.window_counts != "ignored"):
            raise InvalidArgument(
                f"transformers reads sliding_window={stated}, but some layers have a window; give its width (and "
                "set use_sliding_window=true if the model's class has that key), or remove the windows: list only "
                "'full_attention' in layer_types or, without layer_types, set sliding_window to null"
            )
        return (None,) * reader.depth, 0
    two_sided = reader.get("use_bidirectional_attention") in (True, "all") and family.two_sided_counts
    back, after = SEEN[two_sided or family.window_counts](int(stated))
    types = stated_types(reader) if by_types and family.rotates != "compression" else ()
    if "layer_types" in reader.stated and not by_types:
        reader.assumed.append(
            f"transformers ignores layer_types of model_type {reader.model_type!r}, and gives every layer a "
            f"window of {stated}"
        )
    elif family.window_counts == "ignored":
        reader.assumed.append(f"sliding_window = {stated} limits no layer, because the model's code ignores it")
    elif types and family.windowed not in types:
        why = (
            f"layer_types has no {family.windowed!r}"
            if "layer_types" in reader.stated or not reader.get("max_window_layers")
            else f"max_window_layers = {reader.get('max_window_layers')}"
        )
        reader.assumed.append(f"sliding_window = {stated} limits no layer, because {why}")
    return tuple(
        back if kind == family.windowed else None for kind in types or (family.windowed,) * reader.depth
    ), after


def query_dim(reader: Reader) -> int | None:
    """Return the number of channels of a query in latent attention, where only the last channels rotate, or None if
    the model has no latent attention.
    """
    keys = (
        ("head_dim",)
        if reader.family.rotates == "compression"
        else ("qk_nope_head_dim", "qk_rope_head_dim")
        if reader.family.head_dim == "qk_rope_head_dim"
        else ()
    )
    return sum(map(reader.need, keys)) or None


def stated_types(reader: Reader) -> tuple[str, ...]:
    """Return the ``layer_types`` that transformers' config class reads or derives from the config, one per layer,
    or an empty tuple if the class has no ``layer_types``.
    """
    types, flags = tuple(reader.get("layer_types") or ()), reader.get("hybrid_layer_pattern")
    # MiMo-V2's list has 1 for each layer with a window, and may continue with layers of multi-token prediction.
    if flags and types != tuple(NEAR if flag else FULL for flag in flags[: reader.depth]):
        raise InvalidArgument(
            "hybrid_layer_pattern has no effect: transformers' class ignores this key and uses layer_types="
            f"{[*types]}; replace the key with layer_types ({NEAR!r} for 1 and {FULL!r} for 0), or remove it"
        )
    # the class refuses such lists when it builds from JSON
    if types and not reader.family.decoder and len(types) < reader.depth and not reader.refusal:
        raise InvalidArgument(
            f"layer_types has {len(types)} entries, but {reader.family.layers} is {reader.depth}; list every layer"
        )
    return types[: reader.depth]


def scales(reader: Reader, kinds: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """Return the query scales by layer type. Ministral 3's rule scales every type, after rotation; other rules
    scale only types that do not rotate."""
    rule = reader.family.query_scale
    if rule == "ministral3":
        parameters = reader.rope_parameters()
        amount, floor = (
            parameters.get(key, 0) and ROPE[key].check(key, parameters[key])
            for key in ("llama_4_scaling_beta", ORIGINAL)
        )
        if amount and not floor:
            raise InvalidArgument(
                "rope_parameters has llama_4_scaling_beta, which needs original_max_position_embeddings; add that "
                "key"
            )
    elif rule == "llama4":
        amount = reader.need("attn_scale") if reader.get("attn_temperature_tuning") not in (False, 0) else 0
        floor = reader.need("floor_scale")
    else:
        amount, floor = (0.1, 2048) if rule else (0, 0)  # Beam's numbers are fixed in its code
    if not amount:  # Devstral 2 states 0
        return {}
    return dict.fromkeys(
        (name for name, recipe in kinds.items() if rule == "ministral3" or recipe == NOPE),
        Recipe("query-scale").with_(rule=rule, amount=float(amount), floor=int(floor)),
    )


def _typed(reader: Reader, parameters: Mapping[str, Any], types: tuple[str, ...]) -> Recipes:
    """Return the recipe of each layer type from its own rope dictionary. A layer type whose entry is null has no
    positional encoding."""
    if not _has_types(reader.model_type):
        raise InvalidArgument(
            f"rope_parameters has the keys {sorted(parameters)}, but transformers' model_type "
            f"{reader.model_type!r} has one rope dictionary for all layers; put its keys directly into "
            "rope_parameters"
        )
    if stray := sorted(key for key, value in parameters.items() if not isinstance(value, Mapping | None)):
        raise InvalidArgument(
            f"rope_parameters has the keys {stray} outside its dictionaries, but model_type {reader.model_type!r} "
            "has one rope dictionary per layer type; move the keys into a dictionary for each of "
            f"{sorted(set(types))}"
        )
    used = {key: parameters.get(key, {}) for key in sorted({*types}, key=lambda key: (key == NEAR, key))}
    if not types or any(value == {} for key, value in used.items() if key not in RECURRENT):
        raise InvalidArgument(
            f"rope_parameters has the keys {sorted(parameters)}, but the types in layer_types are "
            f"{sorted(set(types))}; add an entry to rope_parameters for every layer type"
        )
    _check_lists(reader.stated, [parameters.get(key) or {} for key in types])
    wide, recipes = {FULL: reader.full_head_dim() if reader.family.full_head_dim else None}, {}
    for key, value in used.items():
        if value and value.get("truncate") is False:
            reader.assumed.append(
                f"transformers ignores truncate=false under {key!r}, so the ends of the ramp are rounded"
            )
            value = {**value, "truncate": True}
        recipes[key] = reader.rotary(value, wide.get(key)) if value else NOPE
    return recipes, types


def _check_lists(stated: Mapping[str, Any], entries: list[Mapping[str, Any]]) -> None:
    """Refuse lists with one value per layer, as in Step-3.5 configs, if transformers' config class derives other
    values from them.

    The class takes the values of the first layer of each type, and applies rope_scaling to full-attention layers.
    A list may have more values than the model has layers; the rest belong to layers of multi-token prediction.
    """
    for key, name in (("rope_theta", "rope_theta"), ("partial_rotary_factors", "partial_rotary_factor")):
        values = stated.get(key)
        if isinstance(values, list) and values[: len(entries)] != [entry.get(name) for entry in entries]:
            raise InvalidArgument(
                f"{key} must have one value for each layer, the same for all layers of a type, because "
                "transformers uses the value of the first layer of each type; correct the list"
            )
    if stated.get("yarn_only_types") not in (None, [FULL]):
        raise InvalidArgument(
            f"yarn_only_types={stated['yarn_only_types']} has no effect, because transformers' class scales layers "
            f"of type {FULL!r}; correct the list"
        )


@cache
def _has_types(model_type: str) -> bool:
    """Return whether the class of a model type has one rope dictionary per layer type."""
    default = getattr(class_form({"model_type": model_type}), "rope_parameters", None) or {}
    return any(isinstance(value, Mapping) for value in default.values())
