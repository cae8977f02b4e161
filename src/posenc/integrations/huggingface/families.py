"""The families of models: facts about each ``model_type`` from families.toml, checked when they are loaded."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from typing import Any, Literal, get_args, get_origin

from posenc.arguments import one_of
from posenc.errors import InvalidArgument, MissingExtra, UnknownName
from posenc.integrations.huggingface.by_rule import by_rule
from posenc.integrations.huggingface.config_class import config_class
from posenc.integrations.huggingface.family import Family


def parse(text: str) -> dict[str, Family]:
    """Parse the text of families.toml, and return the family of each ``model_type``.

    Raises:
        UnknownName: an entry has a key that ``Family`` lacks, or its ``like`` names an entry that does not exist.
        InvalidArgument: a value does not have the type of its field.
    """
    entries = tomllib.loads(text)
    return {name: built(Family, _facts(name, entries), name) for name in entries}


def _facts(name: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an entry, including the facts that it inherits through ``like``."""
    facts = dict(_value(dict, entries[name], name))
    if (parent := facts.pop("like", None)) is None:
        return facts
    inherited = _facts(one_of(f"family that {name!r} is like", parent, entries), entries)
    defaults = _value(dict, facts.get("defaults", {}), f"{name}.defaults")
    return {**inherited, **facts, "defaults": {**inherited.get("defaults", {}), **defaults}}


def built(kind: Any, facts: Mapping[str, Any], name: str) -> Any:
    """Build a dataclass from a TOML table, checking each value against the annotation of its field."""
    hints = {field.name: field.type for field in fields(kind)}
    return kind(
        **{
            key: _value(hints[one_of(f"key of family {name!r}", key, hints)], value, f"{name}.{key}")
            for key, value in facts.items()
        }
    )


def _value(hint: Any, value: Any, name: str) -> Any:
    origin, members = get_origin(hint), get_args(hint)
    if type(None) in members:  # TOML has no null
        return _value(members[0], value, name)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(members[0], item, name) for item in value)
    if value in members if origin is Literal else type(value) is (dict if origin is Mapping else hint):
        return value
    expected = f"one of {members}" if origin is Literal else hint.__name__
    raise InvalidArgument(f"{name} = {value!r} must be {expected}; correct it")


class Families(dict[str, Family]):
    """The family of each ``model_type`` in families.toml. For any other type, ``by_rule`` builds a family on the
    assumption that the model encodes positions as Llama does.

    If the assumption is wrong, the error gives the reason.
    """

    def __missing__(self, model_type: str) -> Family:
        if why := NOT_IN_CONFIG.get(model_type):
            raise InvalidArgument(
                f"model_type {model_type!r} {why}, which its config does not show; measure its positions with "
                "posenc inspect PATH --measure"
            )
        try:
            config_class(model_type)
        except (MissingExtra, InvalidArgument) as error:  # neither measured nor known to transformers
            raise UnknownName(
                "model_type",
                model_type,
                self,
                fix="many models with code on the Hub encode positions like a family that posenc reads; if this "
                "model does, name the family: as_type='llama' (--as-type llama on the command line; for programs, "
                "change model_type in the config)",
            ) from error
        return by_rule(model_type)


FAMILIES = Families(parse((files(__package__) / "families.toml").read_text("utf-8")))
"""The facts about each ``model_type``."""

ALIASES = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "muse_spark": "muse_spark_text",
    "muse_glimmer": "muse_glimmer_text",
}
"""For the model type of each composite model, the type of its language model."""

ON_HUB = {
    "bailing_moe_v2": "glm4_moe",  # Ling 2.0 and Ring
    "kimi_k2": "deepseek_v3",
}
"""For model types whose code is on the Hub, the type in transformers with the same positional encoding."""

READ_AS = {
    **ON_HUB,
    "exaone4_5_text": "exaone4",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen2_vl": "qwen2_vl_text",
}
"""Model types that are read as another type: models with code on the Hub, older names, and composite models with
a flat config."""

SKIPS_SHARE = ("llama", "mistral", "qwen2", "qwen3")
"""Families whose code, without a scaling, ignores ``partial_rotary_factor`` and rotates every channel. With a
scaling, cos and sin cover only the given share of a head's channels, so their shapes do not match those of
queries and keys."""

NOT_IN_CONFIG = {
    "mistral_large4_text": "multiplies its frequencies, and the logarithm of the position in its query scale, by "
    "trained numbers",
    "dory": "runs some of its layers several times",
    "hrm_text": "runs the same layers many times",
    "neomme": "alternates between two window sizes within one layer type",
}
"""Families whose positional encoding cannot be read from their config, and what the config leaves out."""
