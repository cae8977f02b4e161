"""Applies Llama's rule to model types that were not measured, and checks the rule against their rotary modules.

Llama's rule says that every attention layer rotates, scores are divided by √D, and a window of size W contains a
token and the W − 1 tokens before it. The checks do not run the model. They cover two things: the frequencies and
the attention factor of the model's rotary module, and the pairs of channels that the functions in the model file
rotate. Everything else, such as the meaning of a window size, can be found only with ``measure``.
"""

import importlib
import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from posenc.encodings.encoding import Encoding
from posenc.encodings.rotary import Pairing, Rotary
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config_class import class_keys, class_version, config_class, quiet
from posenc.integrations.huggingface.family import Family
from posenc.integrations.huggingface.keys import BOTH_FORMS, EVERYWHERE
from posenc.integrations.huggingface.schema import KEYS, RARE, RECURRENT

SHARE = "partial_rotary_factor"
READ = {*EVERYWHERE, *BOTH_FORMS, "max_position_embeddings", "sliding_window", "use_sliding_window", SHARE}
"""The position keys that Llama's rule reads."""
CLOSE = 2.0**-20
"""The relative tolerance for frequencies computed in a different order: sixteen float32 roundings."""


class NotByRule(InvalidArgument):
    """An error for a model type that Llama's rule does not fit."""

    def __init__(self, model_type: str, why: str) -> None:
        super().__init__(
            f"model_type {model_type!r} of transformers {class_version()} is not a family that posenc reads, "
            f"and Llama's rule does not fit it: {why}; measure its positions with posenc inspect PATH --measure"
        )


@cache
def by_rule(model_type: str) -> Family:
    """Return the family of a model type that has no entry in families.toml.

    Raises:
        MissingExtra, InvalidArgument: transformers is not installed, or has no such type.
        NotByRule: Llama's rule does not fit the type.
    """
    if further := sorted((class_keys(model_type) & {*KEYS, *RARE}) - READ):
        raise NotByRule(model_type, f"the config has {further[0]!r}, which Llama's config lacks")
    try:
        with quiet():
            config = config_class(model_type)()
            pairings = _pairings(_module(config), config)
    except NotByRule:
        raise
    except Exception as error:  # a class may raise anything
        raise NotByRule(
            model_type,
            f"its rotary module cannot be built and run with the default config ({' '.join(str(error).split())})",
        ) from error
    if len(pairings) != 1 or not pairings <= {*get_args(Pairing)}:
        raise NotByRule(
            model_type, f"the pairing in its model file is {' and '.join(sorted(pairings)) or 'unknown'}"
        )
    return Family(
        pairing=cast(Pairing, pairings.pop()),
        partial=SHARE if SHARE in (getattr(config, "rope_parameters", None) or {}) else None,
    )


def hold(encodings: Mapping[str, Encoding], config: Any) -> None:
    """Check that the model's own rotary module computes the same angles as the encodings read by Llama's rule.

    Args:
        encodings: the encoding of each layer type, with float32 angles.
        config: the config object.

    Raises:
        NotByRule: the module and an encoding compute different angles, or it is unknown which layers rotate.
    """
    try:
        with quiet():
            module = _module(config)
    except Exception as error:
        raise NotByRule(config.model_type, f"the rotary module cannot be built ({error})") from error
    types = sorted({*(getattr(config, "layer_types", None) or ())} - RECURRENT)
    if len(types) > 1 and not getattr(module, "layer_types", None):
        raise NotByRule(
            config.model_type,
            f"{' and '.join(types)} share one rotary module, so it is unknown which of them rotate",
        )
    for name, encoding in encodings.items():
        if isinstance(encoding, Rotary):
            frequencies, factor = _of_type(module, name)
            read = torch.tensor(encoding.clock.frequencies.float32)
            same = frequencies.shape == read.shape and torch.allclose(frequencies, read, rtol=CLOSE, atol=0)
            if not same or abs(factor - encoding.attention_factor) > CLOSE * factor:
                raise NotByRule(
                    config.model_type,
                    f"the rotary module's angles for {name!r} differ from those that the rule gives",
                )


def _file(config: Any) -> dict[str, Any]:
    """Return the names defined in the model file of a config."""
    return vars(importlib.import_module(type(config).__module__.replace("configuration_", "modeling_")))


def _module(config: Any) -> nn.Module:
    """Build the only rotary module that takes this config."""
    kinds = [
        kind
        for name, kind in _file(config).items()
        if name.endswith("RotaryEmbedding")
        and inspect.get_annotations(kind.__init__).get("config") in (type(config), type(config).__name__)
    ]
    if len(kinds) != 1:
        raise NotByRule(
            config.model_type,
            "the language model is described by text_config, which is missing"
            if "text_config" in class_keys(config.model_type)
            else f"the model file must have one rotary module for this config, but has {len(kinds) or 'none'}",
        )
    return cast(nn.Module, kinds[0](config))


def _of_type(module: nn.Module, name: str) -> tuple[Tensor, float]:
    """Return the frequencies and attention factor of a layer type, or of the module if it has no layer types."""
    prefix = f"{name}_" if hasattr(module, f"{name}_inv_freq") else ""
    return getattr(module, f"{prefix}inv_freq"), float(getattr(module, f"{prefix}attention_scaling"))


def _pairings(module: nn.Module, config: Any) -> set[str]:
    """Return the pairings of all rotation functions in a model file, found by rotating unit vectors."""
    if sections := [name for name in vars(module) if "section" in name]:
        raise NotByRule(config.model_type, f"the rotary module has {sections[0]}, for positions on several axes")
    types = getattr(module, "layer_types", None) or [""]
    width = 2 * len(_of_type(module, types[0])[0])
    x, at = torch.eye(width)[None, None], torch.ones(1, width, dtype=torch.int64)
    cos_sin = module(x, at, **({"layer_type": types[0]} if types[0] else {}))
    kinds, pairings = {1: "interleaved", width // 2: "half"}, set()
    for function in (function for name, function in _file(config).items() if name.startswith("apply_rotary")):
        if "k" not in inspect.signature(function).parameters:
            raise NotByRule(config.model_type, "the model file rotates queries and keys separately")
        first = function(x, x, *cos_sin)[0][0, 0, 0]  # cos in channel 0, and sin in its partner
        partner = 1 + int(first[1:].abs().argmax())
        pairings.add(kinds.get(partner, "neither half nor interleaved") if first[partner] > 0 else "backwards")
    return pairings
