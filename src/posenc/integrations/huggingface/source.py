"""One config as it stands: hands out values by key, each checked once, and remembers which were not said."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.class_defaults import class_defaults
from posenc.integrations.huggingface.families import ATTRIBUTES
from posenc.integrations.huggingface.family import Family
from posenc.integrations.huggingface.schema import KEYS, RARE


class Source:
    """A config's values.

    Args:
        config: the language model's part, a dict.
        family: how it spells its positions.
        model_type: the family's name.
    """

    def __init__(self, config: Mapping[str, Any], family: Family, model_type: str) -> None:
        self.config, self.family, self.model_type = config, family, model_type
        self.assumed: list[str] = []

    def get(self, key: str | None) -> Any:
        """The value of a key under its own or its standard name; transformers' own where it is left out.

        None where the config says null, or where there is no such key and transformers takes none.
        """
        if key is None:
            return None
        said = {name: config[name] for name, config in self._places(key) if name in config}
        given = {
            name: (KEYS.get(key) or RARE[key]).check(name, value)
            for name, value in said.items()
            if value is not None
        }
        if given and len(said) == 2:
            one, other = said
            if said[one] != said[other]:
                raise InvalidArgument(f"{one}={said[one]} contradicts {other}={said[other]}; keep one of them")
        if given:
            return next(iter(given.values()))
        own = class_defaults().get(self.model_type, {}).get(key)
        if own is not None and key in said and key == "head_dim":
            raise InvalidArgument(
                f"head_dim is null, and model_type {self.model_type!r} needs one; {own} is its own"
            )
        if own is None or said:
            return None
        if own is not False:
            self.assume(f"{key} = {own}, which transformers takes for a {self.model_type} that does not say")
        return own

    def need(self, key: str) -> Any:
        """The value of a key, the family's own where the config is silent, else an error."""
        value = self.get(key)
        if value is not None:
            return value
        if key not in self.family.defaults:
            raise InvalidArgument(
                f"the config of model_type {self.model_type!r} has no {key!r}; add it, or pass what transformers' "
                "AutoConfig makes of the config, which fills in what is left out"
            )
        self.assume(f"{key} = {self.family.defaults[key]:.12g}, as in every released {self.model_type}")
        return self.family.defaults[key]

    @cached_property
    def depth(self) -> int:
        """Layers of the whole model, those of a decoder after those of its encoder."""
        return int(self.need(self.family.layers)) + (self.decoder_depth if self.family.decoder else 0)

    @property
    def decoder_depth(self) -> int:
        """Layers of the decoder; as many as the encoder's where the config does not say, or says null, as in T5."""
        return int(self.get(self.family.decoder) or self.need(self.family.layers))

    def assume(self, note: str) -> None:
        """Note, once, a value that the config leaves out."""
        if note not in self.assumed:
            self.assumed.append(note)

    def _places(self, key: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Where a key may stand, and by which name."""
        if key in self.family.extra and "attn_config" in self.config:  # MPT's
            nested = KEYS["attn_config"].check("attn_config", self.config["attn_config"] or {})
            return [(key, nested)]
        return [(name, self.config) for name in (key, ATTRIBUTES.get(key)) if name]
