"""A small random model of any family, from its config's defaults, and its own positions as our encodings."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from tools.walk_type import completed
from torch import Tensor, nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.encodings import Encoding
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.added import first_row
from posenc.integrations.huggingface.measuring.shrink import built, shrunk
from posenc.integrations.huggingface.patch import TABLES

transformers.logging.set_verbosity_error()


def small(model_type: str, **more: Any) -> Any:
    """The bare model of a type, large windows and all depths shrunk; skips where transformers is older than it."""
    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"this version of transformers has no {model_type}")
    config = CONFIG_MAPPING[model_type]()
    said = completed(model_type, copy.deepcopy(config.to_dict())) | more
    try:
        model = built(type(config).from_dict(shrunk(said)))
    except Exception:  # whatever a class raises for widths that must fit others, as in CSM's codec
        model = built(type(config).from_dict(shrunk(said, widths=False)))
    for name, parameter in model.named_parameters():
        if name.endswith(".temp"):  # Zaya's keys are multiplied by it, and it starts at 0
            torch.nn.init.ones_(parameter)
    return model


def own(model: Any, length: int, phases: str = "float32") -> dict[str, Encoding]:
    """The model's own positions by kind, its tables and biases among them."""
    positions = read(model.config)
    encodings = positions.encodings(length, phases)  # type: ignore[arg-type]
    if positions.turning:
        return {kind: one for kind, one in encodings.items() if one.doors}
    rows = _tables(model)
    for encoding, (module, table) in zip(encodings.values(), rows, strict=False):
        held = dict(encoding.named_parameters()).get("weight")
        if held is not None:
            start = -len(held) if encoding.axes == 2 else 0 if "bias" in encoding.doors else first_row(module)
            encoding.weight = nn.Parameter(table.flatten(0, -2)[start:].detach().clone())
    return encodings


def _tables(model: Any) -> Iterator[tuple[nn.Module, Tensor]]:
    for name, module in model.named_modules():
        end = name.rpartition(".")[2]
        if hasattr(module, "weight") and (end in TABLES or end == "relative_attention_bias"):
            yield module, module.weight
    for module in model.modules():
        yield from ((module, table) for name, table in module._parameters.items() if name in TABLES)


def answers(model: Any, **given: Any) -> Tensor:
    """What the last layer hands out."""
    with torch.no_grad():
        return model(**given)[0].float()
