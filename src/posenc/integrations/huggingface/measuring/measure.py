"""``measure``: the positions of every layer of a model, measured by running it."""

import copy
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.language_model import text_config
from posenc.integrations.huggingface.measuring.asked import TOKENS, Asked
from posenc.integrations.huggingface.measuring.measured import Measured
from posenc.integrations.huggingface.measuring.shown import Shown
from posenc.integrations.huggingface.measuring.shrink import NoTokens, built, load_config, shrunk


def measure(model: Any) -> Measured:
    """The positions of every layer of ``model``, measured.

    Args:
        model: a loaded transformers model, also one of remote code; or a config, or the path of one or of its
            folder, of which a small random model with the same heads is built. Windows show up to 23 tokens, and
            those of a config are shrunk to 5.

    Raises:
        InvalidArgument: the model cannot be built or run on token ids, pictures or sounds, and why.
    """
    if not isinstance(model, nn.Module):
        model = _random(model)
    with torch.no_grad(), _Stepwise(model):
        return _asked(model)


def _asked(model: Any) -> Measured:
    """A model run on token ids; one without token ids is run on pictures or sounds, and its decoder on tokens."""
    takes = inspect.signature(model.forward).parameters
    if "input_ids" in takes:
        return Asked(model).result()
    shown = Shown(model)
    encoder = shown.result()
    if "decoder_input_ids" not in takes:
        return encoder
    decoder = Asked(model, lambda rows: shown.form.given(rows, False, 0)).result()
    tables = {table.module: table for table in (*encoder.tables, *decoder.tables)}
    return Measured((*encoder.layers, *decoder.layers), tuple(tables.values()), model.config)


def _random(config: Any) -> nn.Module:
    """A small random model of a config; widths stay where shrinking them breaks it."""
    if isinstance(config, str | Path):
        config = load_config(config)
    if isinstance(config, Mapping) or not hasattr(config, "to_dict"):
        raise InvalidArgument(f"config is a {type(config).__name__}; load it first: AutoConfig.from_pretrained(…)")
    text = text_config(config)
    attempts = [(config, True), (config, False)] + [(text, True), (text, False)] * (text is not config)
    reasons: list[str] = []
    for candidate, widths in attempts:
        try:
            model = built(type(candidate).from_dict(shrunk(copy.deepcopy(candidate.to_dict()), widths=widths)))
            with torch.no_grad():
                _tried(model)
            return model
        except NoTokens as error:
            if candidate is text:
                raise InvalidArgument(f"{type(config).__name__}: {error}") from error
        except Exception as error:  # whatever a model's code raises for sizes that it was not made for
            reasons.append(f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}")
    why = reasons[0][:200] if reasons else "no part of it takes token ids"
    raise InvalidArgument(f"{type(config).__name__} cannot be built small and run here ({why})")


def _tried(model: Any) -> None:
    """Run it once, as in the measurement."""
    if "input_ids" in inspect.signature(model.forward).parameters:
        Asked(model).run(torch.arange(4, 4 + TOKENS)[None], None, TOKENS)
    else:
        Shown(model)


class _Stepwise:
    """Inside the block attention uses torch's own functions, which the recorder observes, without dropout."""

    def __init__(self, model: Any) -> None:
        self.model, self.before = model, getattr(getattr(model, "config", None), "_attn_implementation", None)

    def __enter__(self) -> None:
        self.training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        if self.before not in ("eager", "sdpa", None):
            self.model.set_attn_implementation("eager")

    def __exit__(self, *_: object) -> None:
        for module in self.training:
            module.training = True
        if self.before not in ("eager", "sdpa", None):
            self.model.set_attn_implementation(self.before)
