"""A config as Layers: which kind every layer is and what it sees, as transformers has it; patched by layer."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import posenc
from posenc.integrations.huggingface import patched, read
from posenc.scaling import Default, Linear, YaRN
from support.small_models import check_refused
from support.tiny_models import MODELS, by_plain_products, logits, tiny, tokens

TWO_SIDED = {"bert", "modernbert"}
NARROW = {
    "mistral": {"sliding_window": 16},
    "mixtral": {"sliding_window": 16},
    "phi3": {"sliding_window": 16},
    "starcoder2": {"sliding_window": 16},
    "gemma2": {"sliding_window": 16},
    "qwen2": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1, "layer_types": None},
}


def seen(model: nn.Module, layers: int) -> list[torch.Tensor]:
    """Which keys any query and head of each layer gives weight to, as the model itself says."""
    model.config._attn_implementation = "eager"  # whose setter transformers 5.5 has not for every family
    by_plain_products(model)
    with torch.no_grad():
        weights = model(tokens(), output_attentions=True).attentions
    return [weights[i][0].gt(0).any(0) for i in range(layers)]


def visible(encoding: posenc.Encoding, layer: int, causal: bool) -> torch.Tensor:
    window = encoding.at(posenc.positions.arange(48))[layer].window
    shown = posenc.Mask(causal=causal).within(window).visible(48, 48, torch.device("cpu"))
    return torch.ones(48, 48, dtype=torch.bool) if shown is None else shown[0, 0]


@pytest.mark.parametrize("family", sorted(set(MODELS) - {"falcon"}))  # Falcon returns scores for weights
def test_every_layer_sees_what_the_model_sees(family: str) -> None:
    model = tiny(family)
    layers = read(model.config).as_layers(48)
    shown = [visible(layers, i, family not in TWO_SIDED) for i in range(2)]
    torch.testing.assert_close(seen(model, 2), shown)


@pytest.mark.parametrize("family", NARROW)
def test_windows_by_every_spelling(family: str) -> None:
    whole = tiny(family).config
    config = type(whole)(**{**whole.to_dict(), **NARROW[family]})
    layers = read(config).as_layers(48)
    shown = [visible(layers, i, True) for i in range(2)]
    torch.testing.assert_close(seen(type(tiny(family))(config).eval(), 2), shown)
    silent = {key: value for key, value in config.to_dict().items() if key != "layer_types"}
    assert read(silent).windows == read(config).windows
    assert 16 in read(config).windows


def test_layers_are_patched_by_layer() -> None:
    """Layers made by hand, with names of their own; what one kind of the model cannot tell apart is refused."""
    model, ids = tiny("gemma3"), tokens()
    far, local = read(model.config).encodings(phases="float32").values()
    before = logits(model, ids)
    with patched(model, posenc.Layers({"a": local, "b": far}, ("a", "b"))):
        assert torch.equal(logits(model, ids), before)
    with patched(model, posenc.Layers({"a": local, "b": far}, ("b", "a"))):
        assert not torch.equal(logits(model, ids), before)
    rotary, nope = posenc.Rotary(16, pairing="half"), posenc.NoPE()
    for family, pattern, message in (
        (
            "llama-2",
            ("rotary", "nope"),
            "layers 0 and 1 have different encodings, but both have the type 'all' in this model",
        ),
        (
            "smollm3",
            ("rotary",),
            "gives layer 1 'rotary', but layer 1 of the model has no positional encoding; pass 'nope'",
        ),
    ):
        layers = posenc.Layers({"rotary": rotary, "nope": nope}, pattern)
        check_refused(tiny(family), layers, message)


def test_kinds_that_turn_alike_are_stretched_both() -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64}
    one = read({"model_type": "llama", "rope_theta": 1e4, **sizes})
    kinds = ("first", "second")
    positions = replace(one, layer_types=kinds, recipes=dict.fromkeys(kinds, one.rotary))
    assert positions.stretched == kinds
    scaled = positions.with_scaling(YaRN(4, 64))
    assert [recipe.get("scaling") for recipe in scaled.recipes.values()] == [YaRN(4, 64)] * 2


def test_only_far_layers_are_stretched_and_drope_stills_them() -> None:
    gemma = read(tiny("gemma3").config)
    assert gemma.stretched == ("full_attention",)
    made = gemma.with_scaling(YaRN(4, 256)).as_layers(48)
    assert [made.layer(i).scaling for i in range(2)] == [Default(), YaRN(4, 256)]
    assert [gemma.with_scaling(None).as_layers(48).layer(i).acts_on for i in range(2)] == [("queries_keys",), ()]
    assert gemma.with_scaling(Linear(8)) is gemma
    assert read(tiny("cohere2").config).stretched == ("rotary",)
