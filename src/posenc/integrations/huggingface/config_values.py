"""The values of one config: each is checked when it is read, and defaults that are used are noted."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface.config_class import (
    RefusedByClass,
    class_form,
    class_version,
    config_class,
    refusals,
)
from posenc.integrations.huggingface.families import FAMILIES, ON_HUB, READ_AS
from posenc.integrations.huggingface.keys import check_keys, check_made, rope_dictionary
from posenc.integrations.huggingface.schema import KEYS, RARE


class ConfigValues:
    """The values of one config, and notes on the values that it leaves out.

    Args:
        stated: the language model's part of the given config.
        base: the rotary base, if the config lacks a base.
        as_type: the family whose rules are used instead of the rules of the config's own model_type.
        made: the config object of ``stated``; by default, transformers' class builds it.

    Attributes:
        refusal: the error of transformers' class if it refuses the config. posenc then reads the config only to
            check whether posenc refuses it too; if so, posenc's error is raised instead of the class's.
        made: the config object, or the class that refuses the config; values are then those of ``stated`` and the
            defaults of the class.
        config: the values of the config object, under the names of its class and also under standard names.
        family: the facts about the model that are not in the config.
        stated_rope: the given rope dictionary.
        entries: the dicts that may contain settings of rotation: the config and its rope dictionaries.
        assumed: notes about values that the config leaves out.
    """

    def __init__(
        self, stated: Mapping[str, Any], base: float | None, as_type: str | None = None, made: Any = None
    ) -> None:
        if as_type is not None and as_type not in FAMILIES:
            raise UnknownName("as_type", as_type, FAMILIES, fix="use a family that posenc reads")
        if as_type is None and not isinstance(stated.get("model_type"), str):
            raise InvalidArgument(
                "the config has no 'model_type', which determines the layout of heads; add a type, such as 'llama'"
            )
        named = stated.get("model_type")
        self.model_type: str = as_type or READ_AS.get(str(named), str(named))
        self.stated, self.family = stated, FAMILIES[self.model_type]
        self.stated_rope = rope_dictionary(stated)
        self.entries = [
            entry for entry in (stated, self.stated_rope, *self.stated_rope.values()) if isinstance(entry, Mapping)
        ]
        self.assumed: list[str] = []
        if self.model_type not in FAMILIES:
            self.assumed.append(
                "read by Llama's rule (every attention layer rotates, windows reach back from each token), not "
                f"measured in transformers {class_version()}; run posenc inspect PATH --measure"
            )
        if as_type is None and named in ON_HUB:
            self.assumed.append(f"read as {self.model_type}: the code of {named} is on the Hub and was not checked")
        check_keys(stated, self.family, self.model_type)
        if base is not None:  # for layers that state no base
            stated = {"rope_theta": KEYS["rope_theta"].check("base", base), **stated}
        self.refusal: RefusedByClass | None = None
        try:
            if getattr(made, "model_type", None) != self.model_type:
                made = class_form({**stated, "model_type": self.model_type})
                stated = made.to_dict()
            with refusals(type(made)):
                types = getattr(made, "layer_types", None)
        except RefusedByClass as refusal:
            made, self.refusal = config_class(self.model_type), refusal
        self.base, self.made, self.fields = base, made, {field.name: field.default for field in fields(made)}
        if any(stated.get(key) for key in stated if str(key).startswith(("index_topk", "indexer_"))):
            self.assumed.append("the indexer, which picks the keys that a query sees, is not read")
        check_made(self.stated, made.attribute_map, stated.get("rope_parameters") or {})
        computed = (  # a class that refuses the config still has defaults for what is not stated
            {name: value for name, value in self.fields.items() if value is not MISSING}
            if self.refusal
            else {"layer_types": types}
        )
        self.config = {
            **(stated.get("attn_config") or {}),  # MPT's
            **computed,
            **stated,
            **{name: stated[key] for name, key in made.attribute_map.items() if key in stated},
        }

    def check_stated(self, key: str, stated: bool, used: Any = None) -> None:
        """Raise an error if the config lacks a value that was used in training, unless the family has a default.
        ``used`` is the value that a layer type has instead of this default.
        """
        if stated:
            return
        if key not in self.family.defaults:
            noun = "base" if (base := key == "rope_theta") else "value"
            raise InvalidArgument(
                f"the config of model_type {self.model_type!r} has no {self.family.base if base else key!r}, "
                f"and a default would be a guess; add the {noun} that the model was trained with"
                + (", or pass base=… (--base on the command line)" if base else "")
            )
        self.note_default(key, used or self.family.defaults[key])

    def note_default(self, key: str, value: Any) -> None:
        """Add a note about a value that the config leaves out."""
        number = f"{value:.12g}" if isinstance(value, float) else value
        source = (
            "posenc's own value"
            if key == self.family.length and not hasattr(self.made, key)
            else f"the default of transformers {class_version()}"
        )
        self.assumed.append(f"{key} = {number}, {source} for {self.model_type}")

    def is_stated(self, key: str) -> bool:
        """Return whether the config contains a key, under transformers' own name or the standard name."""
        other = {own: name for name, own in self.made.attribute_map.items()} | self.made.attribute_map
        return any(self.stated.get(name) is not None for name in (key, other.get(key)))

    def get(self, key: str | None) -> Any:
        """Return the value of a key, or None if the value is null or missing."""
        if not key or key in self.family.ignored or self.config.get(key) is None:
            return None
        value = (KEYS.get(key) or RARE[key]).check(key, self.config[key])
        if value is not False and value == self.fields.get(key) and not self.is_stated(key):
            self.note_default(key, value)
        if key == "head_dim" and self.fields.get(key) is None and not self.is_stated(key):
            _ = self.get(self.family.width), self.get(self.family.heads)  # from which the class computed head_dim
        if key == "layer_types" and len(set(value)) > 1 and key not in self.stated:
            self.assumed.append(
                f"layer_types computed by the class of transformers {class_version()} from other keys"
            )
        return value

    def need(self, key: str) -> Any:
        """Return the value of a key, or the family's default, or raise an error if both values are missing."""
        value = self.get(key)
        self.check_stated(key, value is not None)
        return self.family.defaults[key] if value is None else value
