"""What is measured of a model is what it does, and a family that is read wrongly is found out."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers

from posenc.encodings.alibi import ALiBi
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import ModelPositions, differences, measure, read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.measuring.maps import rotation_of
from posenc.integrations.huggingface.measuring.probe import layer_of
from posenc.integrations.huggingface.measuring.record import Attention
from posenc.integrations.huggingface.measuring.shrink import shrunk
from posenc.integrations.huggingface.model_positions import NOPE, softmax_factor
from posenc.scaling import Default
from support.places import CONFIGS
from support.small_models import check_found_out, check_read, measured, small
from support.tiny_models import tiny


def test_frequencies_are_known_past_whole_turns() -> None:
    theta, at = 0.9, (0, 1, 2, 5, 13, 34, 89, 233)
    angles = torch.tensor(at).double() * theta
    cos, sin = angles.cos(), angles.sin()
    maps = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    found = rotation_of(maps, at)
    assert found.pairs == ((0, 1),)
    assert found.frequencies == pytest.approx((theta,), rel=1e-12)
    assert rotation_of(torch.eye(4).double().repeat(3, 1, 1), (0, 1, 2)) is None


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("llama-2-yarn", "all 16 channels of a head rotate, in half pairs (i, i+8)"),
        (
            "cohere",
            "all 16 channels of a head rotate, in interleaved pairs (2i, 2i+1). Wavelengths run from 6.283 to",
        ),
        ("phi", "the first 8 of 16 channels of a head rotate, in half pairs (i, i+4)"),
        ("gemma3", "all 32 channels of a head rotate, in half pairs (i, i+16)"),
        ("deepseek-v3", "Layers 0 to 1 with RoPE: the last 16 of 24 channels of a head rotate"),
        ("phi3", "Layers 0 to 1 with RoPE"),
        ("smollm3", "Layer 1 without positional encoding"),
        ("bloom", "Layers 0 to 1 with a bias on scores"),
        ("gpt2", "in addition, a trained table of 256 rows (transformer.wpe)"),
        ("gpt-oss", "a token sees itself and the 15 before it"),
    ],
)
def test_a_loaded_model_is_measured(family: str, said: str) -> None:
    model = tiny(family)
    try:
        found = measure(model)
    except NotImplementedError as error:  # torch 2.8 has no grouped product for experts on a CPU
        pytest.skip(str(error)[:100])
    assert said in found.describe()
    assert differences(found, read(model.config)) == []
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "both"), [("gemma3_text", True), ("gemma4_text", "all")])
def test_a_model_that_reads_both_ways_sees_half_a_window_on_either_side(model_type: str, both: object) -> None:
    """EmbeddingGemma's config says what both sides have together."""
    model = small(model_type, use_bidirectional_attention=both, sliding_window=12)
    if "to_dict" not in vars(type(model.config)):
        pytest.skip("this version of transformers halves the window again whenever it saves a config")
    assert differences(measure(model), read(model.config)) == []


def test_slopes_that_transformers_takes_from_its_code_are_a_known_issue() -> None:
    """MPT-7B StoryWriter was trained with alibi_bias_max 16; transformers' model does not read it."""
    config = transformers.AutoConfig.from_pretrained(CONFIGS / "mpt-7b-storywriter.json")
    measured = measure(config)
    (text,) = differences(measured, read(measured.config))
    assert "max_exponent=16" in text
    assert read(config).known_issues == (
        "ALiBi fades out far tokens",
        "transformers ignores alibi_bias_max=16 and uses 8, so all slopes differ from the config's",
    )
    config.attn_config.alibi_bias_max = 8
    check_read(measure(config))
    assert len(read(config).known_issues) == 1


def test_a_model_of_few_tokens_is_measured_with_more() -> None:
    config = transformers.GPTNeoXConfig(vocab_size=8, rotary_pct=1.0)
    check_read(measure(config))


@pytest.mark.parametrize(("heads", "head_dim"), [(6, 64), (32, 16)])
def test_alibi_of_falcon_is_divided_with_the_scores(
    heads: int, head_dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code adds the bias to q·k, before 1/√D, and rounds it to bfloat16."""
    kind = transformers.FalconForCausalLM
    sizes = {"alibi": True, "hidden_size": head_dim * heads, "num_hidden_layers": 1, "vocab_size": 64}
    model = kind(kind.config_class(**sizes, num_attention_heads=heads, multi_query=False)).eval()
    positions = read(model.config)
    assert positions.recipes["all"].get("slopes")[0] == pytest.approx(
        ALiBi(heads).slopes[0].item() / head_dim**0.5, rel=2**-8
    )
    assert differences(measure(model), positions) == []
    check_read(measure(model.config))
    assert re.search("rounded to bfloat16, .* adds this bias twice", " ".join(positions.known_issues))
    eager = kind(kind.config_class(**model.config.to_dict(), attn_implementation="eager")).eval()
    (text,) = differences(measure(eager), positions)
    assert "a bias that is off by" in text
    monkeypatch.setitem(FAMILIES, "falcon", replace(FAMILIES["falcon"], divides_alibi=False))
    (text,) = differences(measure(model), read(model.config))
    assert "a bias that is off by" in text


YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0, "original_max_position_embeddings": 64}


def longrope(pairs: int) -> dict[str, Any]:
    """What makes LongRoPE of ``YARN``."""
    return {"rope_type": "longrope", "short_factor": [1.0] * pairs, "long_factor": [2.0] * pairs}


@pytest.mark.parametrize("model_type", ["deepseek_v3", "hy_v4", "minicpm3"])
def test_a_model_that_forgets_the_factor_of_its_scores_is_found_out(model_type: str) -> None:
    model = small(model_type, rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0})
    positions = read(model.config)
    assert softmax_factor(positions.rotary) == pytest.approx(1.8739, rel=1e-4)
    assert differences(measure(model), positions) == []
    for layer in model.layers:
        layer.self_attn.scaling = layer.self_attn.qk_head_dim**-0.5
    (text,) = differences(measure(model), positions)
    assert text.startswith(
        "all: 1/√D is multiplied by 1.873854 in what was read, 1 in the measured model; a score off"
    )


@pytest.mark.long
def test_layers_that_are_read_as_turning_and_never_attend_are_found_out() -> None:
    found = measured("qwen3_next")
    positions = read(found.config)
    assert differences(found, positions) == []
    wrongly = replace(positions, layer_types=("rotary",) * len(positions.layer_types))
    idle = [i for i, kind in enumerate(positions.layer_types) if kind == "nope"]
    said = "the encoding is rotary in what was read, no recorded attention in the measured model"
    assert idle == [0, 1, 2, 4, 5, 6]
    assert differences(found, wrongly) == [f"rotary in layers 0 to 2, 4 to 6: {said}"]


@pytest.mark.parametrize(
    ("model_type", "wrong", "said"),
    [
        (
            "smollm3",
            {"rotates": "all", "rotates_key": None, "extra": ("no_rope_layers", "no_rope_layer_interval")},
            r"^all in layers 3, 7: the encoding is rotary in what was read, nope in [^:]*$",  # and nothing else
        ),
        (
            "cohere2",
            {"pairing": "half"},
            "pairs are half in what was read, interleaved in the measured model; cos off by",
        ),
        ("opt", {"kind": "none", "extra": ("position_embedding_type",)}, "added table is none .*, a trained table"),
        ("roberta", {"padding_rows": None}, r"learned\(num_positions=512, .* a trained table of 510 rows"),
        (
            "qwen3_vl_text",
            {"axes": "chunked"},
            "in chunked sections of 24, 20, 20 in what was read, 3 axes, in interleaved sections of 24, 20, 20",
        ),
        (
            "ultrabert",
            {"window_counts": "back"},
            "including the token itself, is 5 in what was read, 6 in the measured model",
        ),
        pytest.param(
            "t5gemma2_text",
            {"window_counts": "back"},
            "is 5 in what was read, 3 in the measured",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_family_read_wrongly_is_found_out(
    model_type: str, wrong: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_found_out(model_type, wrong, said, monkeypatch)


def first(positions: ModelPositions, **changed: Any) -> ModelPositions:
    """The same with other values in the recipe of its first layer that has positions."""
    kind = next(name for name in positions.layer_types if positions.recipes[name].name != "nope")
    return replace(positions, recipes={**positions.recipes, kind: positions.recipes[kind].with_(**changed)})


def scaled(positions: ModelPositions, **changed: Any) -> ModelPositions:
    return first(positions, scaling=replace(positions.rotary.get("scaling"), **changed))


YARNED, SCORED = (
    {"rope_parameters": {**YARN, "attention_factor": 1.25}},
    {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
)
MUTANTS: list[tuple[str, dict[str, Any], Callable[[ModelPositions], ModelPositions], str]] = [
    ("arcee", {}, lambda p: first(p, base=20_000.0), "39 of 40 pairs differ, by factors up to 1.966"),
    ("arcee", {}, lambda p: first(p, pairing="interleaved"), "pairs are interleaved in what was read, half in"),
    ("arcee", {}, lambda p: first(p, rotary_dim=40), "channels that rotate: 40 in what was read, 80 in"),
    ("arcee", {}, lambda p: replace(p, windows=(4, *p.windows[1:])), "is 4 in what was read, none in the measured"),
    ("arcee", {}, lambda p: replace(p, windows=(23, *p.windows[1:])), ""),
    ("arcee", YARNED, lambda p: scaled(p, factor=20.0), "39 of 40 pairs differ, by factors up to 2"),
    ("arcee", YARNED, lambda p: scaled(p, original_length=128), "15 of 40 pairs differ"),
    ("arcee", YARNED, lambda p: scaled(p, beta_fast=8.0), "12 of 40 pairs differ"),
    ("arcee", YARNED, lambda p: scaled(p, attention_factor=1.0), "multiplied by 1 in what was read, 1.25 in"),
    ("arcee", YARNED, lambda p: first(p, scaling=Default()), "39 of 40 pairs differ, by factors up to 40"),
    (
        "qwen2_vl_text",
        {},
        lambda p: first(p, axes=None),
        "pairs use one axis in what was read, 3 axes, in chunked sections of 16, 24, 24 in",
    ),
    *(  # whose queries come out of one map with keys and values: all at once, or head by head
        (
            model_type,
            {"rope_parameters": {**YARNED["rope_parameters"], **longrope(pairs)}},
            lambda p: scaled(p, attention_factor=3.0),
            "cos and sin are multiplied by 3 in what was read, 1.25 in the measured model",
        )
        for model_type, pairs in {"phi3": 48, "gpt_neox": 12, "falcon": 32}.items()
    ),
    (
        "deepseek_v3",
        {"rope_parameters": SCORED},
        lambda p: first(p, softmax_factor=1.1),
        "1/√D is multiplied by 1.1 in what was read, 1.8739 in",
    ),
    (
        "granite",
        {"attention_multiplier": 0.25},
        lambda p: first(p, softmax_factor=None),
        r"1/√D is multiplied by 1 in what was read, 2\.\d+ in",
    ),
    (
        "gemma3_text",
        {
            "query_pre_attn_scalar": 168,
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        lambda p: first(p, softmax_factor=1.0),
        "1/√D is multiplied by 1 in what was read, 1.2344 in",
    ),
    ("gemma3n_text", {}, lambda p: first(p, softmax_factor=2.0), "1/√D is multiplied by 2 in .*, 16 in"),
    ("arcee", {}, lambda p: first(p, softmax_factor=2.0), "1/√D is multiplied by 2 in .*, 1 in"),
    (
        "llama4_text",
        {},
        lambda p: replace(p, scales={}),
        "the query scale is none in .*, 1.161 at position 22 in",
    ),
    ("llama4_text", {}, lambda p: replace(p, chunk=None), "tokens per chunk: none in what was read, 5 in"),
    ("llama4_text", {}, lambda p: replace(p, chunk=7), "tokens per chunk: 7 in what was read, 5 in"),
    (
        "bloom",
        {},
        lambda p: first(p, max_exponent=4.0),
        "a bias that is off by .* from the expected bias in the measured",
    ),
    ("bloom", {}, lambda p: replace(p, recipes={"all": NOPE}), "the encoding is nope in .*, a bias on scores in"),
    ("t5", {}, lambda p: first(p, buckets=16), "a bias with several numbers in one of its buckets"),
    ("t5", {}, lambda p: first(p, buckets=64), "a bias with one number in several of its buckets"),
    ("t5", {}, lambda p: first(p, max_distance=20), "a bias with one number in several of its buckets"),
    ("t5", {}, lambda p: first(p, two_sided=False), "a bias with several numbers in one of its buckets"),
    ("t5", {}, lambda p: first(p, softmax_scale=0.125), "1/√D is multiplied by 1 in .*, 8 in"),
    ("gpt2", {}, lambda p: first(p, num_positions=1000), "num_positions=1000, .*, a trained table of 1024 rows in"),
    ("gpt2", {}, lambda p: replace(p, recipes={"all": NOPE}), "a trained table of 1024 rows"),
    (
        "marian",
        {"static_position_embeddings": True},
        lambda p: first(p, spacing="tensor2tensor"),
        "a fixed table of 1024 rows that is off by .* from the expected table in",
    ),
]


@pytest.mark.parametrize(
    ("model_type", "more", "wrong", "said"),
    [
        pytest.param(*one, id=f"{one[0]}-{i}", marks=pytest.mark.slow if one[0] == "gemma3n_text" else ())
        for i, one in enumerate(MUTANTS)
    ],
)
@pytest.mark.usefixtures("recent_transformers")
def test_each_field_that_was_read_wrongly_is_named(
    model_type: str, more: dict[str, Any], wrong: Callable[[ModelPositions], ModelPositions], said: str
) -> None:
    """Windows as wide as the texts do not show, and nobody is blamed for them."""
    found = measured(model_type, **more)
    positions = read(found.config)
    assert differences(found, positions) == []
    texts = differences(found, wrong(positions))
    assert bool(texts) == bool(said), texts
    assert re.search(said, "; ".join(texts)), texts


@pytest.mark.slow
def test_a_model_that_reads_across_its_chunks_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small("llama4_text")
    assert differences(measure(model), read(model.config)) == []
    code = sys.modules[type(model).__module__]
    monkeypatch.setattr(code, "create_chunked_causal_mask", code.create_causal_mask)
    texts = differences(measure(model), read(model.config))
    assert texts
    assert all("tokens per chunk: 5 in what was read, none in the measured model" in text for text in texts)


def test_every_pair_is_measured_on_the_axis_that_turns_it() -> None:
    found = measured("qwen3_vl_text")
    assert found.layers[0].rotation.axes == (*(0, 1, 2) * 20, 0, 0, 0, 0)
    assert "3 axes, in interleaved sections of 24, 20, 20" in found.describe()
    assert measured("arcee").layers[0].rotation.axes is None


@pytest.mark.usefixtures("recent_transformers")
def test_queries_that_rotate_and_grow_are_told_together() -> None:
    found = measure(small("ministral3"))
    check_read(found)
    assert re.match(r"Layers 0 to \d with RoPE: .*; queries are scaled by 1\.\d+ at", found.describe())


@pytest.mark.parametrize(
    ("bend", "different", "turns"), [(0.0, 16, True), (1e-3, 16, True), (0.3, 16, False), (0.0, 4, False)]
)
def test_a_map_that_bends_or_is_one_of_many_is_no_turn(bend: float, different: int, turns: bool) -> None:
    """LiLT's positions are in its tokens: maps of its queries fit, in no order of pairs, and keep no angles.
    Queries of few different tokens, as of patches of one pixel, fit many maps.
    """
    at = (0, 1, 2, 5)
    tokens = torch.randn(different, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens = tokens.repeat(16 // different, 1)
    cos, sin = torch.tensor(at).double().cos(), torch.tensor(at).double().sin()
    maps = torch.eye(5, dtype=torch.float64).repeat(len(at), 1, 1)
    for a, b in ((0, 1), (2, 4)):
        maps[:, [a, a, b, b], [a, b, a, b]] = torch.stack((cos, -sin, sin, cos), -1)
    maps[1:, 0] *= 1 + bend
    moved = torch.einsum("td,pde->pte", tokens, maps)[:, None].float()
    plain = tokens[None, None, :8].float()
    layer = layer_of(Attention("layers.0.attention", plain, plain, plain @ plain.mT), [moved.flatten(1, 2)] * 2, at)
    assert (layer.rotation is not None, layer.exact, layer.maps is None) == (turns, turns, different < 5)


def test_what_no_position_depends_on_is_shrunk() -> None:
    widths = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 35, "emb_dim": 2048}
    recurrent = {"mamba_d_state": 256, "mamba_chunk_size": 256, "linear_key_head_dim": 128}
    made = shrunk({**widths, **recurrent, "intermediate_size": [16384] * 35, "head_dim": 128})
    assert {
        "hidden_size": 512,
        "emb_dim": 256,
        "head_dim": 128,
        "intermediate_size": [64, 64],
        **dict.fromkeys(recurrent, 16),
    }.items() <= made.items()
    late = {"num_hidden_layers": 32, "layer_types": ["mamba"] * 10 + ["attention"] * 22}
    assert shrunk(late)["layer_types"] == ["mamba"] * 10 + ["attention"]
    assert shrunk({"num_hidden_layers": 32, "attn_layer_indices": [9, 18]})["num_hidden_layers"] == 10


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (42, "config is a int; expected a config object, a dict or a path"),
        ("/nowhere", "/nowhere cannot be read"),
        ({"hidden_size": 64}, "has no model_type None"),
        ({"model_type": "llama", "hidden_size": "wide"}, "LlamaConfig of transformers .* refuses the config"),
    ],
)
def test_what_cannot_be_measured_is_said(config: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        measure(config)


def test_a_model_in_training_is_measured_without_dropout_and_stays_in_training() -> None:
    model = small("roformer").train()
    model.encoder.layer[0].eval()
    assert differences(measure(model), read(model.config)) == []
    assert model.training
    assert model.encoder.layer[1].training
    assert not model.encoder.layer[0].training


@pytest.mark.usefixtures("recent_transformers")
def test_a_factor_that_a_norm_divides_out_and_a_trained_scale_of_nothing_are_no_differences() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "attention_factor": 1.25}
    model = small("nanochat", rope_parameters={"rope_theta": 1e4} | yarn)
    positions = read(model.config)
    assert positions.rotary.get("scaling").frequencies(16, 1e4).attention_factor == 1.25
    assert differences(measure(model), positions) == []
    check_read(measured("zaya"))
