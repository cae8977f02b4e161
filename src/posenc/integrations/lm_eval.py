"""Runs lm-evaluation-harness on a model with any scaling.

Run ``lm_eval --model posenc --model_args pretrained=PATH,scaling=yarn(4)``.

Releases of the harness after 0.4.13 find this class by its entry point ``posenc`` in the group ``lm_eval.models``.
With an older release, import this module before calling ``lm_eval.__main__.cli_evaluate``.
"""

from contextlib import ExitStack
from typing import Any

from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from transformers import AutoTokenizer

from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.model_positions import scaling_of
from posenc.integrations.huggingface.patch import patched


@register_model("posenc")
class PosencLM(HFLM):
    """A causal model from transformers with a given scaling in the layer types named by
    ``ModelPositions.stretched``.

    Args:
        scaling: a scaling such as ``yarn(4)`` or ``yarn(4, 8192, beta_fast=16)``; without an original length, the
            model's trained length is used. The given scaling replaces the scaling in the config. An empty string
            leaves the model unchanged.
        settings: the arguments of lm_eval's ``hf`` model. ``max_length`` is factor × trained length by default;
            the harness truncates the beginning of longer requests.

    Raises:
        UnknownName, InvalidArgument: the scaling is unknown, or the model does not use RoPE.
    """

    def __init__(self, scaling: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        if not scaling:
            return
        positions = read(self.model.config)
        stated = scaling_of(scaling, positions.original_length)
        length = round(getattr(stated, "factor", 1.0) * positions.original_length)
        self._max_length = settings.get("max_length") or length
        self._patch = ExitStack()  # undone when the model is deleted
        self._patch.enter_context(patched(self.model, positions.with_scaling(stated).as_layers(length, "float32")))


def tokenizer_of(name: str) -> Any:
    """Return the tokenizer of a model, given the model's folder or name."""
    return AutoTokenizer.from_pretrained(name)
