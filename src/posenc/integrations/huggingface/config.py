"""Reads what a Hugging Face config does with positions, strictly, and writes it back.

Every key about positions is consumed or is an error that names it and the nearest valid key. A base that the
config leaves out is an error too, unless every released model of the family has the same one.
"""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface.families import ALIASES, ATTRIBUTES, FAMILIES, Family
from posenc.integrations.huggingface.layers import NEAR, STILL, ModelPositions
from posenc.integrations.huggingface.policies import by_layer, layer_types, scales
from posenc.integrations.huggingface.scaling import rope_type, schedule_from
from posenc.schedules import Proportional

ABOUT_POSITIONS = re.compile(r"rope|rotary|position|alibi|theta|mscale|yarn|dual_chunk|(^|_)ntk")
BOTH_FORMS = ("rope_scaling", "rope_parameters")
HARMLESS = ("position_buckets",)


def read(config: object, *, base: float | None = None) -> ModelPositions:
    """What ``config`` does with positions.

    Args:
        config: a transformers config object, a dict, or the path of a config.json or of the folder it is in.
        base: the rotary base of a config that leaves it out, when you know it.

    Raises:
        UnknownName: a family, rope type or key that does not exist; the message has the nearest.
        InvalidArgument: a value that is missing, out of range, or contradicts another.
    """
    return Reader(_mapping(config), base).result()


def _mapping(config: object) -> dict[str, Any]:
    """The config as a dict of its own, the language model's part of it."""
    if isinstance(config, str | Path):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read ({error.strerror}); pass a config.json") from error
        except ValueError as error:
            raise InvalidArgument(f"{path} is not JSON ({error}); pass a config.json") from error
    elif not isinstance(config, Mapping) and hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise InvalidArgument(f"config is a {type(config).__name__}; expected a config object, a dict or a path")
    text = config.get("text_config")
    if not isinstance(text, Mapping):
        return dict(config)
    outer = {key: config[key] for key in ("model_type", "torch_dtype", "dtype") if key in config}
    return {**outer, **text}


class Reader:
    """One config being read: hands out values by key and remembers which were used and which assumed."""

    def __init__(self, config: dict[str, Any], base: float | None) -> None:
        self.config, self.base = config, base
        if not isinstance(config.get("model_type"), str):
            raise InvalidArgument("the config has no 'model_type', which says how the model lays out its heads")
        self.model_type = ALIASES.get(config["model_type"], config["model_type"])
        if self.model_type not in FAMILIES:
            raise UnknownName("model_type", self.model_type, FAMILIES)
        self.family: Family = FAMILIES[self.model_type]
        self.assumed: list[str] = []

    def result(self) -> ModelPositions:
        """Everything, after refusing what nothing consumes."""
        self.check_keys()
        count = int(self.need(self.family.layers))
        length = int(self.need(self.family.length))
        kinds, layers = self.kinds(count, length)
        schedules = [recipe.get("schedule") for recipe in kinds.values()]
        originals = [getattr(schedule, "original_length", None) for schedule in schedules]
        factors = [getattr(schedule, "softmax_factor", 1.0) for schedule in schedules]
        return ModelPositions(
            model_type=self.model_type,
            kinds=kinds,
            layers=layers,
            windows=self.windows(count),
            scales=scales(self, kinds, self.rope_parameters()),
            original_length=next((n for n in originals if n), length),
            max_length=length,
            softmax_factor=max(factors) if self.family.second_factor else 1.0,
            assumed=tuple(self.assumed),
            source=self.config,
        )

    def get(self, key: str | None) -> Any:
        """The value of a key under its own or its standard name, or None."""
        if key is None:
            return None
        nested = self.config.get("attn_config")
        if isinstance(nested, Mapping) and nested.get(key) is not None:
            return nested[key]
        value = self.config.get(key)
        return self.config.get(ATTRIBUTES[key]) if value is None and key in ATTRIBUTES else value

    def need(self, key: str) -> Any:
        """The value of a key, the family's own where the config is silent, else an error."""
        value = self.get(key)
        if value is not None:
            return value
        if key not in self.family.defaults:
            raise InvalidArgument(f"the config of model_type {self.model_type!r} has no {key!r}; add it")
        self.assume(f"{key} = {self.family.defaults[key]:.12g}, as in every released {self.model_type}")
        return self.family.defaults[key]

    def assume(self, note: str) -> None:
        """Note, once, a value that the config leaves out."""
        if note not in self.assumed:
            self.assumed.append(note)

    def check_keys(self) -> None:
        """Refuse every key about positions, and every near miss of one, that this family does not have."""
        family = self.family
        own = [family.length, family.base, family.partial, family.rotary_dim, family.head_dim, family.local]
        own += [family.pattern, family.turns, family.bases, family.switch, *family.extra]
        rope = BOTH_FORMS if family.kind == "rotary" else ()
        known = {key for key in own if key} | set(rope) | set(family.defaults)
        known |= {ATTRIBUTES[key] for key in known if key in ATTRIBUTES}
        nested = self.config.get("attn_config")
        nested = dict(nested) if isinstance(nested, Mapping) else {}
        if not nested.get("rope"):  # MPT's later configs list the settings of a rotation that is off
            nested = {key: value for key, value in nested.items() if not key.startswith("rope")}
        for key, value in [*self.config.items(), *nested.items()]:
            if key in known or key in HARMLESS or key in self.indifferent(value):
                continue
            near = get_close_matches(key, [k for k in known if ABOUT_POSITIONS.search(k)], n=1, cutoff=0.85)
            if ABOUT_POSITIONS.search(key) or near:
                raise UnknownName(f"key of model_type {self.model_type!r}", key, sorted(known))

    def indifferent(self, value: object) -> tuple[str, ...]:
        """Keys that say nothing at this value: rope keys that are null, and old habits spelt out."""
        if value is None:
            return (*BOTH_FORMS, "rope_theta", "rotary_dim", "original_max_position_embeddings", "alibi")
        if value is False:
            return ("rope_interleaved", "alibi", "use_alibi", "learned_pos_emb")
        if value == 1:
            return ("rotary_pct", "partial_rotary_factor")
        return ("position_embedding_type",) if value in ("absolute", "rope", "rope_gptj") else ()

    def kinds(self, count: int, length: int) -> tuple[dict[str, Recipe], tuple[str, ...]]:
        """One recipe per kind, and the kind of every layer."""
        if self.family.kind == "none":
            return {"nope": STILL}, ("nope",) * count
        if self.family.kind == "learned":
            if self.get("position_embedding_type") not in (None, "absolute"):
                kind = self.get("position_embedding_type")
                raise InvalidArgument(f"position_embedding_type={kind!r} is not read; only 'absolute' is")
            table = Recipe("learned").with_(num_positions=length, width=int(self.need(self.family.width)))
            return {"all": table}, ("all",) * count
        if self.family.kind == "alibi" or self.get("alibi"):
            if self.get("alibi") is False:
                raise InvalidArgument(
                    f"alibi=False in model_type {self.model_type!r}: its learned table is not read"
                )
            heads, exponent = int(self.need(self.family.heads)), float(self.get("alibi_bias_max") or 8)
            slopes = Recipe("alibi").with_(heads=heads, max_exponent=exponent)
            return {"all": slopes}, ("all",) * count
        return by_layer(self, self.rope_parameters(), count, length)

    def windows(self, count: int) -> tuple[int | None, ...]:
        """How many tokens back every layer sees, itself included, where the config says so; None for all."""
        window, both = self.get("sliding_window"), self.get("local_attention")
        if both is not None:  # ModernBERT counts a token's neighbours on both sides
            window = both // 2 + 1
        if not window or self.get("use_sliding_window") is False:
            return (None,) * count
        if self.get("layer_types") or self.family.pattern:
            near = [kind == NEAR for kind in layer_types(self, count)]
        else:
            near = [i >= int(self.get("max_window_layers") or 0) for i in range(count)]
        return tuple(int(window) if within else None for within in near)

    def rope_parameters(self) -> dict[str, Any]:
        """The rope dictionary under whichever key it stands; empty where there is none."""
        found = {key: self.config[key] for key in BOTH_FORMS if self.config.get(key)}
        if len(found) == 2 and found["rope_scaling"] != found["rope_parameters"]:
            raise InvalidArgument(
                "rope_scaling and rope_parameters are both given and differ; keep rope_parameters"
            )
        for key, value in found.items():
            if not isinstance(value, Mapping):
                raise InvalidArgument(f"{key}={value!r} must be a dictionary; see transformers' rope_parameters")
        return dict(next(iter(found.values()), {}))

    def rotary(self, parameters: Mapping[str, Any], length: int) -> Recipe:
        """The recipe of a rotary layer from one flat rope dictionary and the config around it."""
        parameters = {key: value for key, value in parameters.items() if key not in self.family.beside}
        outside = self.get("original_max_position_embeddings")
        if outside and rope_type(parameters) in ("yarn", "longrope", "llama3"):
            parameters["original_max_position_embeddings"] = outside  # as transformers: the outer key wins
        schedule = schedule_from(parameters, length)
        head_dim = self.get(self.family.head_dim)
        head_dim = int(head_dim or self.head_dim())
        rotary_dim = head_dim
        if not isinstance(schedule, Proportional):
            rotary_dim = self.rotary_dim(parameters, head_dim)
        recipe = Recipe("rotary").with_(
            head_dim=head_dim,
            rotary_dim=rotary_dim,
            pairing=self.pairing(),
            base=self.rotary_base(parameters),
            schedule=schedule,
        )
        build(recipe, ModelShape(), total_length=length)  # lists of factors must fit
        return recipe

    def head_dim(self) -> int:
        if "head_dim" in self.family.defaults:
            return int(self.need("head_dim"))
        width, heads = int(self.need(self.family.width)), int(self.need(self.family.heads))
        if width % heads:
            raise InvalidArgument(f"{self.family.width}={width} is no multiple of {self.family.heads}={heads}")
        return width // heads

    def pairing(self) -> Any:
        """The family's pairing; DeepSeek's config can say that its weights were already put into halves."""
        interleaved = self.get("rope_interleave")
        return "half" if interleaved is False else self.family.pairing

    def rotary_dim(self, parameters: Mapping[str, Any], head_dim: int) -> int:
        """How many channels of a head turn, from whichever key says it."""
        if self.family.rotary_dim:
            return int(self.get(self.family.rotary_dim) or head_dim)
        stated = parameters.get("partial_rotary_factor")
        outer = self.get(self.family.partial)
        if None not in (stated, outer) and stated != outer:
            raise InvalidArgument(f"partial_rotary_factor={stated} contradicts {self.family.partial}={outer}")
        share = outer if stated is None else stated
        if self.family.partial is None:
            if share not in (None, 1, 1.0):
                raise InvalidArgument(
                    f"partial_rotary_factor={share} in model_type {self.model_type!r}, which turns every channel; "
                    "remove it"
                )
            return head_dim
        share = self.family.silent_partial if share is None else share
        if share is None:
            raise InvalidArgument(
                f"the config of model_type {self.model_type!r} has no {self.family.partial!r}, the share of "
                "channels that turn; add it"
            )
        if not 0 < share <= 1:
            raise InvalidArgument(f"{self.family.partial}={share} must be above 0 and at most 1")
        return int(head_dim * share)

    def rotary_base(self, parameters: Mapping[str, Any]) -> float:
        """θ's base: never a silent default."""
        if self.family.fixed_base is not None:
            self.assume(f"base = {self.family.fixed_base:.12g}, written in {self.model_type}'s code")
            return self.family.fixed_base
        inner, outer = parameters.get("rope_theta"), self.get(self.family.base)
        if None not in (inner, outer) and inner != outer:
            raise InvalidArgument(
                f"rope_theta={inner} in the rope dictionary contradicts {self.family.base}={outer}"
            )
        found = outer if inner is None else inner
        if found is None and self.base is not None:
            return float(self.base)
        if found is None and "rope_theta" not in self.family.defaults:
            raise InvalidArgument(
                f"the config of model_type {self.model_type!r} has no {self.family.base!r}; transformers would "
                "silently take its own default; add the base that the model was trained with, or pass base=… "
                "(--base on the command line)"
            )
        return float(self.need("rope_theta") if found is None else found)
