"""Reads what a Hugging Face config does with positions, strictly, and writes it back.

Every key about positions is consumed or is an error that names it and the nearest valid key. A base that the
config leaves out is an error too, unless every released model of the family has the same one.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from posenc.encodings.axes import AxisMap
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface.families import ALIASES, FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS, check_keys, check_outer
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.policies import by_layer, derived_types, layer_types, scales
from posenc.integrations.huggingface.scaling import rope_type, scaling_from
from posenc.integrations.huggingface.schema import KEYS, NEAR, POSITIONS, ROPE
from posenc.integrations.huggingface.source import Source
from posenc.integrations.huggingface.tower import AROUND
from posenc.integrations.huggingface.vision_towers import BY_KIND, added, alibi, cells, laid_out
from posenc.scaling import Proportional

LARGEST = 2**24
"""Bytes that are read of a config: one that goes on behind them is none, and a device has no end."""


def read(config: object, *, base: float | None = None) -> ModelPositions:
    """What ``config`` does with positions.

    Args:
        config: a transformers config object, a dict, or the path of a config.json or of the folder it is in.
        base: the rotary base of a config that leaves it out, when you know it.

    Raises:
        UnknownName: a family, rope type or key that does not exist; the message has the nearest.
        InvalidArgument: a value that is missing, out of range, or contradicts another.
    """
    part, path = _part(config)
    return replace(Reader(part, base).result(), path=path)


def _part(config: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The language model's part of the config as a dict of its own, and the keys under which it stands."""
    if isinstance(config, str | Path):
        config = _file(Path(config))
    elif not isinstance(config, Mapping) and hasattr(config, "to_dict"):
        config = _own_dict(config)
    if not isinstance(config, Mapping):
        raise InvalidArgument(f"config is a {type(config).__name__}; expected a config object, a dict or a path")
    for key in AROUND:
        if isinstance(config.get(key), Mapping):
            check_outer(config, config[key])
            part, path = _part(config[key])
            return part, (key, *path)
    text, model_type = config.get("text_config"), config.get("model_type")
    if text is None:
        if isinstance(model_type, str) and model_type in ALIASES:
            raise InvalidArgument(
                f"model_type {model_type!r} has its language model in text_config, which is missing; add it, or "
                f"write model_type {ALIASES[model_type]!r} for the language model alone"
            )
        return dict(config), ()
    if not isinstance(text, Mapping):
        raise InvalidArgument(f"text_config is a {type(text).__name__}; expected a dictionary")
    check_outer(config, text)
    outer = {key: config[key] for key in ("torch_dtype", "dtype") if key in config}
    inner = {"model_type": ALIASES.get(model_type, model_type) if isinstance(model_type, str) else None, **text}
    return {**outer, **inner}, ("text_config",)


def _file(path: Path) -> Any:
    """What a config.json says, which may be given by its folder."""
    path = path / "config.json" if path.is_dir() else path
    try:
        with path.open("rb") as file:
            said = file.read(LARGEST)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read ({error.strerror}); pass a config.json") from error
    if said.startswith(b"GGUF"):
        raise InvalidArgument(
            f"{path} is a GGUF file, weights with keys of llama.cpp's own; pass the config.json of the model that "
            "it was made from"
        )
    try:
        return json.loads(said)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is not JSON ({error}); pass a config.json") from error


def _own_dict(config: Any) -> Any:
    """What a config object makes of itself; with odd values in it transformers fails there in many ways."""
    try:
        return config.to_dict()
    except Exception as error:
        raise InvalidArgument(
            f"{type(config).__name__}.to_dict() fails ({error!r}); correct the value that it cannot write"
        ) from error


def _unread(model_type: str) -> InvalidArgument:
    """Why a family is refused: transformers has it and this reader does not, or else nobody has."""
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    except ImportError:
        CONFIG_MAPPING_NAMES = {}
    if model_type in CONFIG_MAPPING_NAMES:
        return InvalidArgument(
            f"model_type {model_type!r} is a family of transformers whose config is not read here; its positions "
            "can be measured: posenc inspect PATH --measure"
        )
    return UnknownName("model_type", model_type, FAMILIES)


class Reader(Source):
    """One config being read."""

    def __init__(self, config: dict[str, Any], base: float | None) -> None:
        if not isinstance(config.get("model_type"), str):
            raise InvalidArgument(
                "the config has no 'model_type', which says how the model lays out its heads; add it, such as "
                "'llama'"
            )
        model_type = config["model_type"]
        if model_type not in FAMILIES:
            raise _unread(model_type)
        super().__init__(config, FAMILIES[model_type], model_type)
        self.base = base

    def result(self) -> ModelPositions:
        """Everything, after refusing what nothing consumes."""
        check_keys(self.config, self.family, self.model_type)
        if self.family.derives and not self.get("layer_types"):
            self.config = {**self.config, "layer_types": list(derived_types(self))}
        kinds, layers = self.kinds()
        scalings = [recipe.get("scaling") for recipe in kinds.values()]
        originals = [getattr(scaling, "original_length", None) for scaling in scalings]
        return ModelPositions(
            model_type=self.model_type,
            kinds=kinds,
            layers=layers,
            windows=self.windows(),
            scales=scales(self, kinds, self.rope_parameters()),
            original_length=next((n for n in originals if n), self.length),
            max_length=self.length,
            softmax_factor=self.softmax_factor(),
            assumed=tuple(self.assumed),
            layout=self.family.layout,
            otherwise=self.family.otherwise,
            added=added(self),
            source=self.config,
        )

    @cached_property
    def length(self) -> int:
        """The longest input, in tokens or in patches."""
        if not self.family.sees:
            return int(self.need(self.family.length))
        places = cells(self)
        return POSITIONS if places is None else places[0] * places[1]

    def softmax_factor(self) -> float:
        """DeepSeek's second number, (0.1·mscale_all_dim·ln s + 1)², whatever the type of scaling."""
        parameters = self.rope_parameters() if self.family.second_factor else {}
        amount, factor = (
            parameters.get(key) and ROPE[key].check(key, parameters[key]) for key in ("mscale_all_dim", "factor")
        )
        if not amount or not factor or factor <= 1 or rope_type(parameters) == "default":
            return 1.0
        return float((0.1 * amount * math.log(factor) + 1) ** 2)

    def kinds(self) -> tuple[dict[str, Recipe], tuple[str, ...]]:
        """One recipe per kind, and the kind of every layer."""
        if self.family.kind in BY_KIND:
            return BY_KIND[self.family.kind](self)
        if self.family.layout:
            return laid_out(self, self.rope_parameters())
        if self.get("alibi"):
            return alibi(self)
        return by_layer(self, self.rope_parameters())

    def windows(self) -> tuple[int | None, ...]:
        """How many tokens back every layer sees, itself included, where the config says so; None for all."""
        count = self.depth
        if self.get("use_sliding_window") is False:
            return (None,) * count
        window, both = self.get("sliding_window"), self.get("local_attention")
        window = window if both is None else both // 2  # of which half are on either side
        if not window:
            return (None,) * count
        sides = self.family.both_sides if self.get("use_bidirectional_attention") in (True, "all") else None
        window = (sides or self.family.back)(window)
        if self.get("layer_types") or self.family.pattern:
            near = [kind == NEAR for kind in layer_types(self)]
        else:
            near = [i >= (self.get("max_window_layers") or 0) for i in range(count)]
        return tuple(window if within else None for within in near)

    def rope_parameters(self) -> dict[str, Any]:
        """The rope dictionary under whichever key it stands; the family's own, or empty, where there is none."""
        if self.family.kind != "rotary" or self.family.fixed_base is not None:
            return {}
        given = {key: self.config[key] for key in BOTH_FORMS if self.config.get(key) is not None}
        found = {key: value for key, value in given.items() if KEYS[key].check(key, value) or len(given) == 1}
        if len(found) == 2 and found["rope_scaling"] != found["rope_parameters"]:
            raise InvalidArgument(
                "rope_scaling and rope_parameters are both given and differ; keep rope_parameters"
            )
        found.pop("rope_scaling" if found.get("rope_scaling") == {} else "", None)  # as good as none
        own = self.get("rope_parameters") if not found else None
        return dict(own or next(iter(found.values()), {}))

    def rotary(self, parameters: Mapping[str, Any], head_dim: int | None = None) -> Recipe:
        """The recipe of a rotary layer from one flat rope dictionary and the config around it.

        ``head_dim`` is that of layers whose heads have other channels than the config says for all.
        """
        axes = self.axes(parameters)
        parameters = {key: value for key, value in parameters.items() if key not in self.family.beside}
        if axes:  # an older spelling of sections and no scaling
            spelt = [key for key in ("rope_type", "type") if parameters.get(key) == "mrope"]
            parameters |= dict.fromkeys(spelt, "default")
        if rope_type(parameters) in ("yarn", "longrope", "llama3"):
            outside = self.get("original_max_position_embeddings")
            if outside:  # as transformers: the outer key wins
                parameters["original_max_position_embeddings"] = outside
        if self.family.second_factor and ("mscale" not in parameters or rope_type(parameters) != "yarn"):
            parameters.pop("mscale_all_dim", None)  # of the scores alone
        scaling = scaling_from(parameters, self.length)
        stated = None if head_dim or "partial_rotary_factor" in self.family.beside else self.get("head_dim")
        head_dim = head_dim or self.get(self.family.head_dim) or self.head_dim()
        if stated not in (None, head_dim):
            raise InvalidArgument(
                f"head_dim={stated} contradicts {self.family.head_dim or 'width/heads'}={head_dim}; remove head_dim"
            )
        rotary_dim = head_dim
        if not isinstance(scaling, Proportional):
            rotary_dim = self.rotary_dim(parameters, head_dim)
        recipe = Recipe("rotary").with_(
            head_dim=head_dim,
            rotary_dim=rotary_dim,
            pairing=self.pairing(),
            base=self.rotary_base(parameters),
            scaling=scaling,
        )
        recipe = recipe if axes is None else recipe.with_(axes=axes)
        build(recipe, ModelShape(), total_length=self.length)  # lists of factors and sections must fit
        return recipe

    def axes(self, parameters: Mapping[str, Any]) -> AxisMap | None:
        """Which axis of a position every pair turns by, in a family whose positions have several."""
        if self.family.axes is None:
            return None
        stated = parameters.get("mrope_section")
        sections = self.family.sections if stated is None else ROPE["mrope_section"].check("mrope_section", stated)
        if len(sections) != len(self.family.sections):
            raise InvalidArgument(f"mrope_section={list(sections)} must be {len(self.family.sections)} numbers")
        return self.family.axes(*sections)

    def head_dim(self) -> int:
        if "head_dim" in self.family.defaults:
            return int(self.need("head_dim"))
        width, heads = self.need(self.family.width), self.need(self.family.heads)
        if width % heads:
            raise InvalidArgument(f"{self.family.width}={width} is no multiple of {self.family.heads}={heads}")
        return width // heads

    def full_head_dim(self) -> int | None:
        """Channels per head of full layers, where the family has others there: layer by layer, or once."""
        if self.family.full_head_dim is None:
            return None
        each = [one for one in (self.get("per_layer_config") or {}).values() if isinstance(one, Mapping)]
        stated = {KEYS["head_dim"].check("head_dim", one["head_dim"]) for one in each if "head_dim" in one}
        if len(stated) > 1:
            raise InvalidArgument(f"per_layer_config has head_dim {sorted(stated)}; only one is read")
        return stated.pop() if stated else int(self.need(self.family.full_head_dim))

    def pairing(self) -> Any:
        """The family's pairing; DeepSeek's config can say that its weights were already put into halves."""
        interleaved = self.get("rope_interleave")
        return "half" if interleaved is False else self.family.pairing

    def rotary_dim(self, parameters: Mapping[str, Any], head_dim: int) -> int:
        """How many channels of a head turn, from whichever key says it."""
        if self.family.rotary_dim:
            return self.get(self.family.rotary_dim) or head_dim
        stated = parameters.get("partial_rotary_factor")  # checked with its dictionary
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
            return float(KEYS["rope_theta"].check("base", self.base))
        if found is None and "rope_theta" not in self.family.defaults:
            raise InvalidArgument(
                f"the config of model_type {self.model_type!r} has no {self.family.base!r}; transformers would "
                "silently take its own default; add the base that the model was trained with, or pass base=… "
                "(--base on the command line)"
            )
        return float(self.need("rope_theta") if found is None else found)
