"""Types that were not measured: read as a measured one of the same code is, or refused with what does not fit."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.llama import modeling_llama

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import by_rule, read
from posenc.integrations.huggingface.by_rule import NotByRule
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.inspection import inspect

ROTARY = [
    name
    for name, family in FAMILIES.items()
    if name in CONFIG_MAPPING and family.kind == "rotary" and family.layout is None
]
SAMPLE = {
    "llama",
    "cohere",
    "gemma3n_text",
    "ministral",
    "nanochat",
    "cohere2",
    "qwen3_5_text",
    "deepseek_v3",
    "moshi",
}
COUNTED_OTHERWISE = {"moshi", "openai_privacy_filter", "ultrabert"}
"""Whose code counts windows in a way of its own, as the note says that only a measurement tells."""
NOT_SAID = {"assumed", "source", "path"}


def config(model_type: str) -> dict[str, Any]:
    """What the class of a type makes by itself, with a base that is no default."""
    made: dict[str, Any] = CONFIG_MAPPING[model_type]().to_dict()
    rope = made.get("rope_parameters") or {}
    for entry in [rope, *rope.values()]:
        if isinstance(entry, dict) and "rope_theta" in entry:
            entry["rope_theta"] = 17_000.0
    return made


def by_the_rule(model_type: str, monkeypatch: pytest.MonkeyPatch) -> ModelPositions:
    """A config of a measured type, read as if it had not been."""
    with monkeypatch.context() as forgotten:
        forgotten.delitem(FAMILIES, model_type, raising=False)
        return read(config(model_type))


@pytest.mark.parametrize(
    "model_type", [pytest.param(one, marks=[] if one in SAMPLE else pytest.mark.slow) for one in ROTARY]
)
def test_a_type_is_read_as_it_was_measured_or_refused(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        got = by_the_rule(model_type, monkeypatch)
        want = read(config(model_type))
    except InvalidArgument:
        return
    apart = {f.name for f in fields(want) if getattr(got, f.name) != getattr(want, f.name)} - NOT_SAID
    assert apart <= ({"windows", "window_after"} if model_type in COUNTED_OTHERWISE else set())
    assert got.assumed[0].startswith(
        "read by Llama's rule (every attention layer rotates, windows reach back from each token), not measured in"
    )


@pytest.mark.parametrize(
    ("model_type", "why"),
    [
        ("deepseek_v3", "the config has 'qk_nope_head_dim', which Llama's config lacks"),
        (
            "cohere2",
            "full_attention and sliding_attention share one rotary module, so it is unknown which of them rotate",
        ),
        ("nanochat", "the pairing in its model file is backwards"),
        ("qwen3_5_text", "the rotary module has mrope_section, for positions on several axes"),
        ("gemma3n_text", "the model file rotates queries and keys separately"),
        ("xlm-roberta", "the model file must have one rotary module for this config, but has none"),
        (
            "dia",
            r"its rotary module cannot be built and run with the default config \(.*max_position_embeddings.\)",
        ),
    ],
)
def test_a_type_that_the_rule_does_not_fit_is_refused(
    model_type: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_rule.by_rule.cache_clear()
    with pytest.raises(NotByRule, match=f"{why}; measure its positions with posenc inspect PATH --measure"):
        by_the_rule(model_type, monkeypatch)


@pytest.mark.parametrize("fault", ["base", "factor"])
def test_a_module_that_computes_something_else_is_heard(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = modeling_llama.LlamaRotaryEmbedding.__init__

    def otherwise(self: Any, config: modeling_llama.LlamaConfig, *rest: Any) -> None:
        made(self, config, *rest)
        if fault == "base":
            self.inv_freq = nn.Buffer(self.inv_freq * torch.linspace(1, 0.999, len(self.inv_freq)))
        else:
            self.attention_scaling = 1.001

    monkeypatch.setattr(modeling_llama.LlamaRotaryEmbedding, "__init__", otherwise)
    with pytest.raises(
        NotByRule, match="the rotary module's angles for 'all' differ from those that the rule gives"
    ):
        by_the_rule("llama", monkeypatch)


def test_inspect_says_that_it_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FAMILIES, "llama")
    risks = inspect(config("llama")).risks
    assert any("read by Llama's rule" in risk and "posenc inspect PATH --measure" in risk for risk in risks)


def test_an_indexer_is_named_as_not_read() -> None:
    assert (
        "the indexer, which picks the keys that a query sees, is not read" in read(config("deepseek_v32")).assumed
    )
    assert not any("indexer" in note for note in read(config("deepseek_v3")).assumed)
