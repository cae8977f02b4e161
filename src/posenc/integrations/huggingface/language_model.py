"""Finds the language model's part of a config, and the language model's modules in a model with vision or audio
towers.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from torch import nn

AROUND = ("vlm_config", "thinker_config", "llm_config")
"""Keys under which a config holds the config of a whole model, such as Qwen-Omni's thinker or the model in a
retriever."""


def path_of_text(config: Any) -> tuple[str, ...]:
    """Return the keys that lead from a config to the config of its language model, possibly none."""
    for key in (*AROUND, "text_config"):
        if (part := _part(config, key)) is not None:
            return (key, *path_of_text(part))
    return ()


def _part(config: Any, key: str) -> Any:
    return config.get(key) if isinstance(config, Mapping) else getattr(config, key, None)


def text_config(config: Any) -> Any:
    """Return the config of the language model within a config, or the config itself."""
    part = reduce(_part, path_of_text(config), config)
    try:
        return part.get_text_config()
    except (AttributeError, ValueError):  # no such method, or several candidates
        return part


def cached(output: Any) -> dict[str, Any]:
    """Return the caches in a model's output, keyed by the ``forward`` arguments that take them in the next call."""
    from transformers.cache_utils import Cache

    return {key: value for key, value in output.items() if isinstance(value, Cache)}


def language(model: Any) -> dict[str, nn.Module]:
    """Return the modules of the language model by name. A model without towers is itself the language model."""
    tower = model if text_config(model.config) is model.config else model.get_decoder()
    return dict(tower.named_modules())
