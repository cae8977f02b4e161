"""Which modules of a model belong to its language model, and not to a tower that sees images or hears sound."""

from typing import Any

from torch import nn

AROUND = ("vlm_config", "thinker_config")
"""Keys of a whole model inside another: a retriever's, or one that thinks beside one that talks."""


def text_config(config: Any) -> Any:
    """The config of the language model inside a config; the config itself where there is nothing else."""
    for key in AROUND:
        if hasattr(config, key):
            return text_config(getattr(config, key))
    try:
        return config.get_text_config()
    except (AttributeError, ValueError):  # no such method, or several candidates
        return config


def language(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of the language model by name: those under no config of another kind than its own.

    A part without a config is what the parts in it are; a smallest part with the config of all towers serves
    more than one, or another.
    """
    outer: Any = model.config
    kind = type(text_config(outer))
    around = {type(None), type(outer)} - {kind}
    inside: dict[str, bool] = {}
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        if config is None or config is outer:
            kinds = {type(getattr(one, "config", None)) for one in module.modules()} - around
            above = inside.get(name.rpartition(".")[0], True)
            inside[name] = above and (kind in kinds if kinds else config is None)
        else:
            inside[name] = type(config) is kind
        if inside[name]:
            found[name] = module
    return found
