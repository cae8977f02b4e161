"""Reads sizes and lengths from one config, and builds the recipes of its rotary layers."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from posenc.encodings.axes import AxisMap
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config_values import ConfigValues
from posenc.integrations.huggingface.families import SKIPS_SHARE
from posenc.integrations.huggingface.family import MAPS
from posenc.integrations.huggingface.model_positions import with_softmax_factor
from posenc.integrations.huggingface.scaling import ORIGINAL, PAIR, ntk_from, rope_type, scaling_from
from posenc.integrations.huggingface.schema import KEYS, LAST_POSITION, ROPE
from posenc.scaling import Proportional
from posenc.scaling.yarn import sharpening

POWERS = {"query_pre_attn_scalar": -0.5}
"""For keys whose values are not themselves the factor on q·k: the exponent that turns a value into this factor."""


class Reader(ConfigValues):
    """A reader of sizes, lengths and rotary layers from the values of one config."""

    @cached_property
    def depth(self) -> int:
        """The number of layers in encoder and decoder together."""
        counted = self.get(self.family.layers) or len(self.get("layers_block_type") or ())
        return int(counted or self.need(self.family.layers)) + (self.decoder_depth if self.family.decoder else 0)

    @property
    def decoder_depth(self) -> int:
        """The number of decoder layers. If its key is missing or null, as in T5, this is the number of encoder
        layers."""
        return int(self.get(self.family.decoder) or self.need(self.family.layers))

    @cached_property
    def length(self) -> int:
        """The longest input that the config allows, in tokens or in patches. Rows of a position table that belong
        to no position, such as padding rows, are not counted."""
        if self.family.layout is None and self.family.kind != "learned-grid":  # text or sound
            self.check_stated(self.family.length, self.is_stated(self.family.length))
            length, served = int(self.need(self.family.length)), self.stated.get("model_max_length")
            if served not in (None, length):
                self.assumed.append(
                    f"transformers reads {self.family.length}={length}, not model_max_length={served}"
                )
            padding = self.family.padding_rows
            return length - (self.need(padding) + 1 if padding else 0)
        return math.prod(self.cells() or (LAST_POSITION,))

    def cells(self) -> tuple[int, int] | None:
        """Return the rows and columns of patches in an image, or None if the family accepts images of any size."""
        if self.get("image_size") is None and self.family.layout:
            return None
        (height, width), (rows, columns) = (
            side if isinstance(side, list | tuple) else (side, side)
            for side in map(self.need, ("image_size", "patch_size"))
        )
        if height < rows or width < columns:
            raise InvalidArgument(
                f"patch_size={self.get('patch_size')} must be at most image_size={self.get('image_size')}"
            )
        return height // rows, width // columns

    @property
    def scale_of_scores(self) -> float | None:
        """The family's own factor on q·k, or None if the family has no factor of its own."""
        key = self.family.score_scale
        return self.family.fixed_score_scale if key is None else float(self.need(key) ** POWERS.get(key, 1))

    def softmax_factor(self, head_dim: int, kind: str) -> float:
        """Return the factor by which 1/√D is multiplied: the family's own factor, DeepSeek's factor, or 1 if the
        family has neither.

        DeepSeek's factor is (0.1·mscale_all_dim·ln s + 1)², where s is the factor of the scaling. It applies with
        every ``kind`` of scaling.
        """
        if self.scale_of_scores:
            return float(self.scale_of_scores * head_dim**0.5)
        parameters = self.rope_parameters() if self.family.mscale_scores else {}
        amount, factor = (
            ROPE[key].check(key, parameters.get(key) or unscaled)
            for key, unscaled in {"mscale_all_dim": 0.0, "factor": 1.0}.items()
        )
        return 1.0 if kind == "default" else sharpening(factor, amount) ** 2

    def rope_parameters(self) -> dict[str, Any]:
        """Return the config's rope_parameters or rope_scaling, or else the class's default, which is empty if the
        family has no rope dictionary."""
        # a config that its class refuses may have rope_scaling instead of rope_parameters
        return _whole_lengths(self.config.get("rope_parameters") or self.stated_rope)

    def rotary(self, parameters: Mapping[str, Any], head_dim: int | None = None) -> Recipe:
        """Return the recipe of a rotary layer from one flat rope dictionary and the config that contains it.

        Pass ``head_dim`` for layers whose head size differs from the head size of the other layers.
        """
        axes = self.axes(parameters) if self.family.axes else None
        share = parameters.get("partial_rotary_factor", None if self.refusal else 1.0)  # as in the rotary module
        parameters = {
            key: "default" if axes and value == "mrope" else value  # an older spelling of sections, not a scaling
            for key, value in parameters.items()
            if key not in self.family.ignored_rope_keys
        }
        kind = rope_type(parameters)
        starts = kind in ("yarn", "longrope", "llama3")  # these depend on an original length
        flat = not any(isinstance(entry, Mapping) for entry in self.rope_parameters().values())
        if starts and flat and (outer := getattr(self.made, ORIGINAL, None)):
            parameters[ORIGINAL] = outer  # transformers' rotary module prefers this value
        if self.family.query_scale == "ministral3" and not starts:
            parameters.pop(ORIGINAL, None)  # it affects only queries
        if self.family.mscale_scores and ("mscale" not in parameters or kind != "yarn"):
            parameters.pop("mscale_all_dim", None)  # it affects only scores
        if self.family.mscale_by_length and kind == "longrope":
            short, long = (parameters.pop(key, None) for key in ("short_mscale", "long_mscale"))
            if short != long:
                raise InvalidArgument(
                    f"short_mscale={short} and long_mscale={long} must be equal; correct one of them"
                )
            parameters["attention_factor"] = short
        if kind == "yarn" and len({bool(parameters.get(key)) for key in PAIR}) == 2:
            self.assumed.append(
                "in transformers, mscale and mscale_all_dim change YaRN's attention factor only if both are given; "
                "one of them alone has no effect on it"
            )
        scaling = (
            ntk_from(parameters)
            if self.family.ntk_alpha and kind == "dynamic" and parameters.get("alpha")
            else scaling_from(parameters, self.length)
        )
        if starts and self.stated_rope:
            self.check_stated(ORIGINAL, any(ORIGINAL in entry for entry in self.entries))
        sliced = "partial_rotary_factor" in self.family.ignored_rope_keys  # then share refers to the whole head
        of_all = None if head_dim else self.get("head_dim")
        head_dim = head_dim or self.get(self.family.head_dim) or self.head_dim()
        if of_all and (not sliced or share is not None):
            part = f"partial_rotary_factor={share} of " if sliced else ""
            share = ROPE["partial_rotary_factor"].check("partial_rotary_factor", share) if sliced else 1
            if int(of_all * share) != head_dim:
                raise InvalidArgument(
                    f"{part}head_dim={of_all} contradicts {self.family.head_dim or 'width/heads'}={head_dim}; "
                    "correct one of them"
                )
        recipe = with_softmax_factor(
            Recipe("rotary").with_(
                head_dim=head_dim,
                rotary_dim=head_dim if isinstance(scaling, Proportional) else self.rotary_dim(parameters, head_dim),
                pairing="half" if self.get("rope_interleave") is False else self.family.pairing,  # DeepSeek's key
                base=self.rotary_base(parameters),
                scaling=scaling,
                backwards=self.family.backwards or None,
                axes=axes,
            ),
            self.softmax_factor(head_dim, kind),
        )
        if axes and 2 * axes.pairs != recipe.get("rotary_dim"):
            raise InvalidArgument(
                f"mrope_section={[axes.axis_of_pair.count(axis) for axis in range(axes.axes)]} has {axes.pairs} "
                f"pairs, but {recipe.get('rotary_dim')} channels of a head rotate; its sum must be half of them"
            )
        build(recipe, ModelShape(), total_length=self.length)  # checks the lengths of lists of factors
        return recipe

    def axes(self, parameters: Mapping[str, Any]) -> AxisMap:
        """Return the axis of each pair in a family with several axes."""
        axes, usual = str(self.family.axes), self.family.sections
        sections = ROPE["mrope_section"].check("mrope_section", parameters.get("mrope_section") or usual)
        if len(sections) != len(usual):
            raise InvalidArgument(f"mrope_section={list(sections)} must have {len(usual)} entries")
        if parameters.get("mrope_interleaved", axes == "strided") != (axes == "strided"):
            self.assumed.append(f"transformers ignores mrope_interleaved={parameters['mrope_interleaved']}")
        return MAPS[axes](*sections)

    def head_dim(self) -> int:
        width, heads = self.need(self.family.width), self.need(self.family.heads)
        if self.get(others := "decoder_num_attention_heads" if self.family.decoder else None) not in (None, heads):
            raise InvalidArgument(
                f"{others}={self.get(others)} in model_type {self.model_type!r}, but its encoder has {heads} "
                "heads; encoder and decoder must have the same number"
            )
        if width % heads:
            raise InvalidArgument(
                f"{self.family.width}={width} must be a multiple of {self.family.heads}={heads}; "
                "correct one of them"
            )
        return width // heads

    def full_head_dim(self) -> int | None:
        """Return the number of channels per head in full-attention layers of a family in which it may differ from
        the number in other layers, or None if it is the same."""
        stated = {
            KEYS["head_dim"].check("head_dim", layer["head_dim"])
            for layer in (self.get("per_layer_config") or {}).values()
            if isinstance(layer, Mapping) and "head_dim" in layer
        }
        if len(stated) > 1:
            raise InvalidArgument(
                f"per_layer_config has head_dim {sorted(stated)}; use one head_dim for all entries"
            )
        return stated.pop() if stated else self.get(self.family.full_head_dim)

    def rotary_dim(self, parameters: Mapping[str, Any], head_dim: int) -> int:
        """Return how many channels of a head rotate."""
        channels = self.get(self.family.rotary_dim)
        share, outer = parameters.get("partial_rotary_factor"), self.stated.get(str(self.family.partial))
        if None not in (share, outer) and share != outer:
            raise InvalidArgument(
                f"partial_rotary_factor={share} in the rope dictionary contradicts {self.family.partial}={outer} "
                "outside the dictionary; keep the value used in training"
            )
        if channels and share is not None and int(head_dim * share) != channels:
            raise InvalidArgument(
                f"{self.family.rotary_dim}={channels} contradicts partial_rotary_factor={share} of {head_dim} "
                "channels; keep one of them"
            )
        if self.family.partial is None:
            if (
                share not in (None, 1, 1.0)
                and self.model_type in SKIPS_SHARE
                and rope_type(parameters) == "default"
            ):
                self.assumed.append(f"transformers ignores partial_rotary_factor={share} and rotates every channel")
            elif share not in (None, 1, 1.0):
                raise InvalidArgument(
                    f"partial_rotary_factor={share} contradicts model_type {self.model_type!r}, whose code "
                    "rotates every channel; remove partial_rotary_factor"
                )
            return channels or head_dim  # GPT-J's key gives a number of channels, not a share
        share = outer if share is None else share
        if self.family.partial not in self.family.defaults:
            stated = any(
                entry.get(name) is not None
                for entry in self.entries
                for name in (self.family.partial, "partial_rotary_factor", self.family.rotary_dim)
            )
            self.check_stated(self.family.partial, share is not None and stated)
        return int(head_dim * (1.0 if share is None else share))  # as in the rotary module

    def rotary_base(self, parameters: Mapping[str, Any]) -> float:
        """Return the rotary base, and add a note to ``assumed`` if the config does not give it."""
        if self.family.fixed_base is not None:
            self.assumed.append(f"base = {self.family.fixed_base:.12g}, written in {self.model_type}'s code")
            return self.family.fixed_base
        default = self.config.get("rope_theta") or self.family.defaults.get("rope_theta")
        base = parameters.get("rope_theta", default)
        self.check_stated(
            "rope_theta", self._states_base or base in [entry.get("rope_theta") for entry in self.entries], base
        )
        base = ROPE["rope_theta"].check("rope_theta", base)
        wide = [
            entry.get("rope_theta")
            for key, entry in self.rope_parameters().items()
            if isinstance(entry, Mapping) and key != "main" and "sliding" not in key
        ]
        for key in sorted({self.family.base, "rope_theta"} - {self.family.local_base}):
            outer = self.stated.get(key)
            if outer is None or isinstance(outer, list) or outer in (wide or [base]):
                continue
            if not self.stated_rope:
                raise InvalidArgument(
                    f"{key}={outer} has no effect: transformers' class for {self.model_type!r} uses base {base}; "
                    f"if {base} is right, save the config again with AutoConfig.from_pretrained(path)."
                    "save_pretrained(path); if not, write the right base to rope_parameters"
                )
            self.assumed.append(f"rope_theta = {base:.12g} from the rope dictionary, not {key} = {outer:.12g}")
        return float(base)

    @cached_property
    def _states_base(self) -> bool:
        """Whether the config gives the base of every rotating layer."""
        if self.base is not None or any(self.is_stated(key) for key in ("rope_theta", self.family.base)):
            return True
        kinds = [key for key, value in self.rope_parameters().items() if isinstance(value, Mapping)]
        used = [key for key in kinds if key in (self.config.get("layer_types") or ())] or kinds
        entries = [self.stated_rope.get(key, self.stated_rope) for key in used] or [self.stated_rope]
        return all(isinstance(entry, Mapping) and entry.get("rope_theta") is not None for entry in entries)


def _whole_lengths(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return rope dictionaries in which original lengths such as 32768.0, which some files contain, are
    integers."""
    return {
        key: _whole_lengths(value)
        if isinstance(value, Mapping)
        else int(value)
        if key == "original_max_position_embeddings" and isinstance(value, float) and value.is_integer()
        else value
        for key, value in parameters.items()
    }
