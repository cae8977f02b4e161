"""Refuses unknown config keys. A key about positions must be either a key that posenc reads or a key that is known
to have no effect. Any other key raises an error that says how to fix the config.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from posenc.arguments import instance
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface.config_class import class_keys, config_class
from posenc.integrations.huggingface.family import Family
from posenc.integrations.huggingface.schema import BESIDE, IDLE, KEYS, RARE, ROPE, SHAPES

BOTH_FORMS = ("rope_scaling", "rope_parameters")
ABOUT = re.compile(r"rope|rotary|position|alibi|theta|mscale|yarn|dual_chunk|(^|_)ntk|attention_windows")
"""A pattern that matches the names of keys about positions, even if no family that posenc reads has the key."""
HARMLESS = (
    *("position_buckets", "per_layer_config", "indexer_rope_interleave", "compress_rates"),
    "model_max_length",  # only servers read it, in Cohere's configs among others
)
EVERYWHERE = (
    *("hidden_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads"),
    *("num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"),
    *("num_heads", "encoder_attention_heads", "decoder_attention_heads"),
    *("head_dim", "layer_types", "max_window_layers", "pad_token_id"),
)
"""Keys that any family may have."""
ELSEWHERE = {
    **dict.fromkeys(("head_size", "kv_channels", "d_head", "attention_head_dim"), "head_dim"),
    **dict.fromkeys(("window_size", "sliding_window_size", "attention_window"), "sliding_window"),
    **dict.fromkeys(("n_embed", "n_embd"), "hidden_size"),
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
}
"""Names that only some families use for a key, mapped to the usual name of the key. A config may contain the key
under such a name if it also has the usual name with an equal value.
"""
UNSUPPORTED = {
    "rotary_value": "also rotates values, which posenc does not compute; use transformers' own model",
    "dual_chunk_attention_config": (
        "requests Dual Chunk Attention (used to serve Qwen2.5-1M), which transformers does not compute; remove the "
        "key, and beyond the trained length use posenc.remap.DCA(rotary, chunk=chunk_size - local_size, "
        "local=local_size)"
    ),
}
"""Keys that request an encoding that posenc does not read from a config. Each value says what the key requests,
and how to fix the config.
"""
OUTSIDE = {
    "musicflamingo": ("rope_parameters", "max_position_embeddings", "head_dim"),  # for audio
    **dict.fromkeys(("qwen2_5_omni_thinker", "qwen3_omni_moe_thinker"), ("position_id_per_seconds",)),
}
"""Position keys outside text_config that have an effect, by the type of the whole model."""


def plain(key: str) -> str:
    """Return a key in snake case; ``"ropeScaling"``, ``"ROPE-SCALING"`` and ``"Rope_Scaling"`` give the same
    result."""
    return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", key).lower().replace("-", "_").replace(" ", "_")


def rope_dictionary(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rope dictionary under ``rope_scaling`` or ``rope_parameters``, or an empty dictionary if the
    config has neither key."""
    return next((config[key] for key in BOTH_FORMS if config.get(key) and isinstance(config[key], Mapping)), {})


def known_keys(family: Family, model_type: str) -> frozenset[str]:
    """Return every position key of this family: the keys in its entry in families.toml, which its code may read
    although its config class does not declare them, and the keys of its config class that schema.py lists.
    """
    scales = family.kind == "rotary" and family.fixed_base is None
    named = (
        *(family.length, family.local_base, family.partial, family.rotary_dim, family.head_dim),
        *(family.full_head_dim, family.rotates_key, *family.ignored, *family.extra, *family.defaults),
        *((*BOTH_FORMS, "original_max_position_embeddings", family.base) if scales else ()),
    )
    known = frozenset({*EVERYWHERE, *filter(None, named)} | (class_keys(model_type) & {*KEYS, *RARE}))
    return known | {name for name, key in config_class(model_type).attribute_map.items() if key in known}


def check_made(config: Mapping[str, Any], names: Mapping[str, str], made: Mapping[str, Any]) -> None:
    """Refuse contradictory values, and keys that the config class dropped from a rope dictionary (flat or by layer
    type).

    Args:
        names: the class's own name for each standard key.
        made: the rope dictionary that the class built from this config.

    Raises:
        InvalidArgument: two spellings of a key, or two rope dictionaries, have different values.
        UnknownName: a key was dropped; the message names the nearest key that the class kept.
    """
    for alias, key in names.items():
        if alias in config and key in config and config[key] != config[alias] and type(config[key]) is not list:
            raise InvalidArgument(f"{key}={config[key]} contradicts {alias}={config[alias]}; keep one of them")
    scaling, parameters = (config.get(key) for key in BOTH_FORMS)
    if parameters and scaling not in (None, parameters) and (scaling or not made):  # an empty one may replace it
        raise InvalidArgument("rope_scaling and rope_parameters are both given and differ; keep rope_parameters")
    if made and (dropped := [key for key in rope_dictionary(config) if key not in {*made, *ROPE}]):
        raise UnknownName(
            "key of rope_parameters", dropped[0], [*made, *ROPE], fix="correct its name, or remove it"
        )


def check_keys(config: Mapping[str, Any], family: Family, model_type: str) -> None:
    """Refuse keys about positions that this family does not have, and misspelt keys.

    Raises:
        UnknownName: a key is misspelt or not in the family; the message names the nearest known key.
        InvalidArgument: a value is invalid, or the config gives a value under a name that only other families use,
            and does not repeat it under this family's name.
    """
    known = known_keys(family, model_type)
    nested = config["attn_config"] if isinstance(config.get("attn_config"), Mapping) else {}
    # later MPT configs list settings of rotation even if it is off
    used = [item for item in nested.items() if nested.get("rope") or not str(item[0]).startswith("rope")]
    for key, value in [*config.items(), *used]:
        instance(key, str, "a key of the config", "a string; write it in quotes")
        if key in known and key in KEYS and value is not None and key not in family.ignored:
            KEYS[key].check(key, value)  # also checks unused keys, like transformers
        is_off = key == "sliding_window" and config.get("use_sliding_window") is False
        if is_off or key in known or key in HARMLESS or idle(key, value, family, known):
            continue
        if meant := ELSEWHERE.get(plain(key)):
            if family.kind != "none" and value not in (config.get(meant), _implied(config, meant)):
                raise InvalidArgument(
                    f"{key}={value!r} contradicts {meant}={config[meant]!r}, which transformers reads in "
                    f"model_type {model_type!r}; set {meant} to the trained value, and remove {key}"
                    if config.get(meant) is not None
                    else f"{key}={value!r} must be named {meant!r} in model_type {model_type!r}; rename it"
                )
        elif key in UNSUPPORTED:
            raise InvalidArgument(f"{key}={value!r} {UNSUPPORTED[key]}")
        elif key in KEYS or ABOUT.search(plain(key)) or near_miss(key, known):
            if key in BESIDE and "rope_parameters" in known:
                raise InvalidArgument(
                    f"{key}={value!r} is outside the rope dictionary, where it has no effect; move it into "
                    "rope_parameters (rope_scaling in older files), or remove it"
                )
            raise UnknownName(
                f"key of model_type {model_type!r}", key, sorted(known), fix="correct its name, or remove it"
            )


def _implied(config: Mapping[str, Any], key: str) -> object:
    """Return the value of a key, with head_dim computed from width and heads if the config lacks it."""
    width, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if key != "head_dim" or config.get(key) is not None or type(width) is not int or type(heads) is not int:
        return config.get(key)
    return width / max(1, heads)


def idle(key: str, value: object, family: Family, known: frozenset[str]) -> bool:
    """Return whether a key that the family lacks has no effect with this value, for example because it is null."""
    if near_miss(key, known):
        return False
    if key == "rope_interleave":  # the pairing is fixed in the code
        return value in (None, family.pairing == "interleaved")
    is_off = value is None or (value is False and (key not in KEYS or KEYS[key].holds(False)))
    is_default = type(value) is not bool and value in IDLE.get(key, ())
    switches = ("rotary", "use_rope", "use_rotary_pos_emb", "use_position_ids")
    return is_off or is_default or (value is True and family.kind == "rotary" and key in switches)


@cache
def near_miss(key: str, known: frozenset[str]) -> bool:
    """Return whether ``key`` misspells a known key. A key that adds a word to a known key is a different key, not a
    misspelling."""
    letters = {name.replace("_", ""): name for name in (*known, "attn_config")}
    near = [letters[name] for name in get_close_matches(plain(key).replace("_", ""), letters, n=1, cutoff=0.86)]
    return bool(near) and near[0] != key and not {*near[0].split("_")} < {*plain(key).split("_")}


def check_outer(config: Mapping[str, Any], text: Mapping[str, Any]) -> None:
    """Refuse position keys outside ``text_config``, because transformers does not read keys there.

    Raises:
        InvalidArgument: a position key is outside ``text_config``, and ``text_config`` does not repeat it.
    """
    placed = frozenset(KEYS.keys() - SHAPES.keys())
    read_there = OUTSIDE.get(str(config.get("model_type")), ())
    for key, value in config.items():
        name = plain(str(key))
        about = name in placed or (ABOUT.search(name) and near_miss(name, placed))
        is_part = isinstance(value, Mapping) and name.endswith("_config")
        differs = value not in (None, False, {}) and text.get(key) != value
        if about and differs and not is_part and name not in read_there:
            raise InvalidArgument(
                f"{key}={value!r} is outside text_config, where it has no effect; move it into text_config, or "
                "remove it"
            )
