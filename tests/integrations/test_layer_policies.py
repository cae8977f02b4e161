"""Which layers turn, in every spelling that configs have for it, against what transformers' own models do."""

import importlib
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

import pytest
import torch
import transformers

from posenc.errors import InvalidArgument
from posenc.integrations import position_table
from posenc.integrations.fingerprint import fingerprint
from posenc.integrations.huggingface import differences, measure, patched, read, write
from posenc.integrations.huggingface.families import NOT_IN_CONFIG
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.programs import llama_cpp, vllm
from posenc.integrations.programs import transformers as by_transformers
from posenc.scaling import Default, Proportional, YaRN
from support.small_models import answers, check_swapped, own, small
from support.tiny_models import SIZES, logits, rope, sharp, tokens

EIGHT = rope("yarn", 1e4, factor=8.0, original_max_position_embeddings=64)
MOE = {"num_local_experts": 2, "num_experts_per_tok": 1}
YARN = rope(
    "yarn",
    1e6,
    factor=4.0,
    original_max_position_embeddings=16,
    llama_4_scaling_beta=0.1,
    mscale=1.0,
    mscale_all_dim=1.0,
)
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "smollm3": ("smollm3", "SmolLM3ForCausalLM", rope("default", 5e6)),
    "llama4": (
        "llama4",
        "Llama4ForCausalLM",
        {"intermediate_size_mlp": 64, "head_dim": 16, "floor_scale": 8, **MOE, **rope("default", 5e5)},
    ),
    "granite-swa": (
        "granite_swa",
        "GraniteSWAForCausalLM",
        {"layer_rope_theta": [0, 1e4, 1e4, 1e4] * 2, **rope("default", 1e4)},
    ),
    "granite-swa, two bases": (
        "granite_swa",
        "GraniteSWAForCausalLM",
        {"layer_rope_theta": [1e6, 1e4, 0, 1e4] * 2, **rope("default", 1e4)},
    ),
    "cohere-2": ("cohere2", "Cohere2ForCausalLM", {"sliding_window": 16, **rope("default", 5e4)}),
    "exaone-4": ("exaone4", "Exaone4ForCausalLM", {"sliding_window": 16, **rope("default", 1e6)}),
    "beam": (
        "beam",
        "BeamForCausalLM",
        {
            "head_dim": 16,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 32,
            "sliding_window": 16,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": None,
            },
        },
    ),
    "granite-moe-swa": (
        "granitemoe_swa",
        "GraniteMoeSWAForCausalLM",
        {"layer_rope_theta": [0, 1e4, 1e4, 1e4] * 2, **MOE, **rope("default", 1e4)},
    ),
    "laguna, two shares of a head": (
        "laguna",
        "LagunaForCausalLM",
        {
            "head_dim": 16,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "sliding_window": 16,
            "layer_types": ["full_attention", "sliding_attention"] * 4,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0},
            },
        },
    ),
    "ministral-3": ("ministral3", "Ministral3ForCausalLM", {"head_dim": 16, **YARN}),
}
COUNT = 8


def model(name: str, **more: Any) -> torch.nn.Module:
    """A random model of eight layers with sharp attention."""
    folder, kind, settings = MODELS[name]
    pytest.importorskip(f"transformers.models.{folder}")
    return sharp(getattr(transformers, kind), {**SIZES, "num_hidden_layers": COUNT, **settings, **more})


def turning(name: str, made: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each layer's attention calls its module's rotation, in one forward."""
    module = importlib.import_module(f"transformers.models.{MODELS[name][0]}.modeling_{MODELS[name][0]}")
    function = "apply_rotary_emb" if name == "llama4" else "apply_rotary_pos_emb"
    called = [False] * COUNT
    current = [0]
    rotation = getattr(module, function)

    def noted(*args: Any, **kwargs: Any) -> Any:
        called[current[0]] = True
        return rotation(*args, **kwargs)

    monkeypatch.setattr(module, function, noted)
    for i, layer in enumerate(made.model.layers):
        layer.self_attn.register_forward_pre_hook(lambda *_, i=i: current.__setitem__(0, i))
    logits(made, tokens(12))
    return called


def still(positions: ModelPositions) -> list[int]:
    return [i for i, kind in enumerate(positions.layer_types) if not positions.recipes[kind].get("scaling")]


@pytest.mark.parametrize("name", MODELS)
def test_the_layers_that_turn_are_those_that_the_model_turns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model(name)
    positions = read(made.config)
    want = turning(name, made, monkeypatch)
    assert still(positions) == [i for i, turns in enumerate(want) if not turns]
    layers = positions.as_layers(48)
    assert [("queries_keys" in layers.layer(i).acts_on) for i in range(COUNT)] == want
    assert read(write(positions)).recipes == positions.recipes, "written, it reads the same"
    assert read(write(positions)).scales == positions.scales
    encodings = own(made, 48)
    unrotated = {key: value.with_scaling(None) for key, value in encodings.items()}
    check_swapped(made, encodings, unrotated, lambda: logits(made, tokens()), most=2e-4, least=1e-2)


def config(model_type: str, layers: int, **more: Any) -> dict[str, Any]:
    base = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 8192, "rope_theta": 1e4}
    return {"model_type": model_type, **base, "num_hidden_layers": layers, **more}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (config("smollm3", 36), list(range(3, 36, 4))),
        (config("smollm3", 8, no_rope_layer_interval=3), [2, 5]),
        (config("smollm3", 4, no_rope_layers=[1, 0, 0, 1]), [1, 2]),
        (config("llama4_text", 48, head_dim=16), list(range(3, 48, 4))),
        (config("muse_spark_text", 62, rope_parameters={"rope_theta": 1e4}), list(range(1, 62, 4))),
        (config("granite_swa", 24), []),
        (config("granite_swa", 4, layer_rope_theta=[0, 1e4, 5e5, 0]), [0, 3]),
        (config("cohere2", 40, sliding_window=4096), list(range(3, 40, 4))),
        (config("exaone4", 32, sliding_window=4096), list(range(3, 32, 4))),
        (config("exaone4", 6, sliding_window=4096), [3]),
        (config("exaone4", 30, sliding_window=None, layer_types=["full_attention"] * 30), []),
        (config("granitemoehybrid", 3, layer_types=["mamba", "attention", "mamba"]), [0, 1, 2]),
        (config("bamba", 3, attn_layer_indices=[1]), [0, 2]),
        (config("bamba", 3, attn_layer_indices=[1], attn_rotary_emb=8), [0, 2]),
        (config("olmo_hybrid", 4), [0, 1, 2]),
        ({**config("olmo_hybrid", 4), "rope_theta": None}, [0, 1, 2, 3]),
        ({**config("olmo_hybrid", 4, rope_parameters={"rope_theta": None}), "rope_theta": None}, [0, 1, 2, 3]),
        (config("recurrent_gemma", 6, head_dim=16, partial_rotary_factor=0.5), [0, 1, 3, 4]),
        (
            config(
                "granitemoehybrid", 3, layer_types=["mamba", "attention", "mamba"], position_embedding_type="rope"
            ),
            [0, 2],
        ),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_golden_lists(given: dict[str, Any], want: list[int]) -> None:
    """Layers without positions, counted from 0: by hand from the families' documentation."""
    positions = read(given)
    assert still(positions) == want
    assert len(positions.layer_types) == given["num_hidden_layers"]


def test_two_bases_are_two_kinds() -> None:
    positions = read(config("granite_swa", 4, layer_rope_theta=[0, 1e4, 5e5, 1e4]))
    assert positions.layer_types == ("nope", "base 10000", "base 500000", "base 10000")
    assert {name: recipe.get("base") for name, recipe in positions.rotary_recipes.items()} == {
        "base 10000": 1e4,
        "base 500000": 5e5,
    }


@pytest.mark.usefixtures("recent_transformers")
def test_molmo_scales_the_layers_that_are_listed() -> None:
    made = small("molmo2_text", **EIGHT, rope_scaling_layers=[1])
    positions = read(made.config)
    assert positions.layer_types == ("unscaled", "scaled")
    assert [type(one.get("scaling")) for one in positions.recipes.values()] == [YaRN, Default]
    assert differences(measure(made), positions) == []
    given = {"input_ids": tokens(12)}
    before = answers(made, **given)
    with patched(made, own(made, 12)):
        torch.testing.assert_close(answers(made, **given), before, rtol=0, atol=1e-5 * float(before.abs().max()))
    with pytest.raises(
        InvalidArgument,
        match="one rope_parameters dictionary for all layers, but rope_scaling_layers makes layers rotate "
        "differently from each other",
    ):
        write(positions, YaRN(4, 64), max_length=65_536)


@pytest.mark.usefixtures("recent_transformers")
def test_nanochat_turns_the_other_way() -> None:
    made = small("nanochat")
    positions = read(made.config)
    (rope,) = positions.encodings(phases="float32").values()
    x = torch.randn(1, 1, 9, rope.head_dim)
    at, forwards = torch.arange(9), rope.with_settings(backwards=False)
    turned = rope.at(at).rotate(x, None)[0]
    torch.testing.assert_close(forwards.at(at).rotate(turned, None)[0], x, rtol=0, atol=1e-6)
    torch.testing.assert_close(rope.unrotate(turned, at), x, rtol=0, atol=1e-6)
    found = measure(made)
    assert differences(found, positions) == []
    wrongly = replace(positions, recipes={"all": positions.rotary.with_(backwards=None)})
    assert (
        "pairs rotate backwards: no in what was read, yes in the measured model" in differences(found, wrongly)[0]
    )
    for call, message in (
        (partial(vllm.read, made.config), "rotates its pairs backwards"),
        (partial(vllm.write, positions, YaRN(4, 64)), "rotates its pairs backwards"),
        (
            partial(llama_cpp.write, positions),
            "has pairs that rotate backwards, which posenc cannot write for llama.cpp",
        ),
    ):
        with pytest.raises(InvalidArgument, match=message):
            call()
    assert all(layer.backwards for layer in by_transformers.read(made.config).layers.values())
    assert by_transformers.write(positions)["model_type"] == "nanochat"


NESTED = {
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
    },
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 8,
    "head_dim": 16,
    "rope_theta": None,
}


def test_full_layers_have_heads_of_their_own() -> None:
    """Gemma 4 says so once, or layer by layer, or takes 512."""
    for said, full in (
        ({"global_head_dim": 32}, 32),
        ({"global_head_dim": 16}, 16),
        ({"per_layer_config": {"1": {"head_dim": 64, "num_key_value_heads": 1}}}, 64),
        ({}, 512),
    ):
        positions = read(config("gemma4_text", 2, **NESTED, **said))
        assert [positions.recipes[kind].get("head_dim") for kind in positions.layer_types] == [16, full]
        assert positions.recipes["full_attention"].get("scaling") == Proportional(0.25)
        assert positions.windows == (8, None)
    assert read(config("embedding_gemma2_text", 2, **NESTED)).windows == (9, None)


def test_full_layers_of_minimax_have_the_window() -> None:
    """As in Mixtral, whose attention they have; the other layers are recurrent."""
    assert read(config("minimax", 2, sliding_window=8)).windows == (8, None)


def test_every_layer_has_a_table_of_its_own() -> None:
    said = {"num_heads": 4, "d_model": 64, "num_layers": 2, "n_positions": 64}
    assert read({"model_type": "t5", **said}).layer_types == ("encoder", "encoder", "decoder", "decoder")
    own = read({"model_type": "umt5", **said})
    names = ("encoder layer 0", "encoder layer 1", "decoder layer 0", "decoder layer 1")
    assert own.layer_types == tuple(own.recipes) == names
    assert own.types_by_window == ("encoder", "encoder", "decoder", "decoder")
    layers = own.as_layers()
    assert len({id(layers.layer(i)) for i in range(4)}) == 4


def test_no_positions_at_all() -> None:
    jamba = {"model_type": "jamba", "num_hidden_layers": 4, "max_position_embeddings": 262_144}
    assert read(jamba).as_layers().name == "nope"
    granite = read(config("granitemoehybrid", 2, layer_types=["mamba", "attention"], attention_multiplier=0.5))
    assert granite.assumed == (
        "no layer has a positional encoding, because position_embedding_type is None",
        "layers without positional encoding scale scores by 0.5: pass this as scale=",
    )
    assert granite.as_layers().acts_on == ()
    for types in (["mamba", "attention"], ["attention"] * 2):  # layers without attention have no scores
        rope = config("granitemoehybrid", 2, layer_types=types, position_embedding_type="rope")
        assert read({**rope, "attention_multiplier": 0.5}).assumed == ()


@pytest.mark.parametrize("stated", [None, "nope", "absolute", "rope"])
def test_granite_rotates_if_its_model_has_a_rotary_module(stated: str | None) -> None:
    types = {"layer_types": ["mamba", "attention"], "position_embedding_type": stated}
    given = config("granitemoehybrid", 2, attention_multiplier=0.5, **types)
    with torch.device("meta"):
        made = transformers.GraniteMoeHybridModel(transformers.GraniteMoeHybridConfig.from_dict(given))
    assert bool(read(given).rotary_recipes) == (made.rotary_emb is not None)
    rope = read({**given, "position_embedding_type": "rope"})
    assert (fingerprint(position_table.of(read(given))) == fingerprint(position_table.of(rope))) == (
        stated == "rope"
    )


def test_scales_of_queries_are_read_beside() -> None:
    llama = read(config("llama4_text", 4, head_dim=16, floor_scale=4096)).as_layers()
    assert [line.split(": ", 1)[1] for line in llama.describe().splitlines()][1].endswith(
        "nope + query-scale: rule='llama4', amount=0.1, floor=4096"
    )
    assert read(config("llama4_text", 4, head_dim=16, attention_chunk_size=8192)).chunk == 8192
    assert not read(config("llama4_text", 4, head_dim=16, attn_temperature_tuning=False)).scales
    beam = read(model("beam").config)
    assert str(beam.scales["full_attention"]) == "query-scale(amount=0.1, floor=2048, rule=beam)"
    ministral = read(model("ministral-3").config)
    assert str(ministral.scales["all"]) == "query-scale(amount=0.1, floor=16, rule=ministral3)"
    assert ministral.as_layers(48).acts_on == ("queries_keys", "scale")


@pytest.mark.parametrize("entry", [{"rope_type": "default"}, {"rope_type": "linear", "factor": 4.0}])
def test_the_floor_of_a_query_scale_is_no_length_of_a_scaling(entry: dict[str, Any]) -> None:
    """Ministral 3 reads it from the rope dictionary, whatever the type of that."""
    stated = {**entry, "rope_theta": 1e4, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 16}
    positions = read(config("ministral3", 4, rope_parameters=stated))
    assert str(positions.scales["all"]) == "query-scale(amount=0.1, floor=16, rule=ministral3)"
    assert positions.original_length == positions.max_length
    assert read(write(positions)) == replace(positions, source=write(positions))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            config("llama4_text", 2, no_rope_layers=[1, 0], layer_types=["full_attention", "chunked_attention"]),
            "layer_types and no_rope_layers contradict each other",
        ),
        (config("smollm3", 4, no_rope_layers=[1, 0]), "no_rope_layers has 2 entries, but num_hidden_layers is 4"),
        (
            config("granite_swa", 4, layer_rope_theta=[0]),
            "layer_rope_theta has 1 entries, but num_hidden_layers is 4",
        ),
        (
            config("exaone4", 4, sliding_window=16, sliding_window_pattern="LLXG"),
            r"sliding_window_pattern='LLXG' must be a number, or a string of the letters L \(a window\) and G",
        ),
        *(  # in the words of its class
            (config("exaone4", 4, **spelt), f"Exaone4Config of transformers .* refuses the config: {message}")
            for spelt, message in (
                ({"sliding_window": None, "sliding_window_pattern": 0}, "ZeroDivisionError"),
                ({"sliding_window": 16, "sliding_window_pattern": "LLLG"}, "TypeError: unsupported operand"),
            )
        ),
        *(
            (config("gemma4_text", 2, **NESTED, per_layer_config=stated), message)
            for stated, message in (
                (
                    {"0": {"head_dim": 32}, "1": {"head_dim": 64}},
                    r"per_layer_config has head_dim \[32, 64\]; use one head_dim for all",
                ),
                ([1], "per_layer_config=.* must be a dictionary"),
                ({"1": {"head_dim": []}}, r"head_dim=\[\] must be a whole number"),
            )
        ),
        (
            config("bamba", 4, attn_layer_indices=3, partial_rotary_factor=0.5),
            "attn_layer_indices=3 must be a list in which each entry is a whole",
        ),
        (
            config("ministral3", 4, rope_parameters={"rope_type": "default", "llama_4_scaling_beta": 0.1}),
            "llama_4_scaling_beta, which needs original_max_position_embeddings",
        ),
        *(
            ({"model_type": model_type}, f"{why}, which its config does not show")
            for model_type, why in sorted(NOT_IN_CONFIG.items())
        ),
    ],
)
def test_refusals(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(given)


@pytest.mark.parametrize(
    ("config", "mask"),
    [
        ({"model_type": "modernbert", "local_attention": 14}, "masking_utils:sliding_window_bidirectional_overlay"),
        (
            {"model_type": "gemma3_text", "sliding_window": 14, "use_bidirectional_attention": True},
            "models.gemma3.modeling_gemma3:_bidirectional_window_overlay",
        ),
        (
            {"model_type": "gemma4_text", "sliding_window": 14, "use_bidirectional_attention": "all"},
            "masking_utils:sliding_window_bidirectional_overlay",
        ),
        (
            {"model_type": "t5gemma2_text", "sliding_window": 14},
            "models.t5gemma2.modeling_t5gemma2:sliding_window_mask_function",
        ),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_both_sides_of_a_window_are_those_of_the_mask(config: dict[str, Any], mask: str) -> None:
    """Oracle: the mask of the family's own code, at the number that its class makes of the config's."""
    given = transformers.AutoConfig.for_model(**config)
    rule = resolve_name(f"transformers.{mask}")
    causal = {"is_causal": False} if "t5gemma2" in mask else {}
    sees = [k for k in range(100) if rule(given.sliding_window, **causal)(0, 0, 50, k)]
    (layer,) = (layer for layer in position_table.of(read(given)).layers.values() if layer.window)
    assert (layer.window - 1, layer.window_after) == (50 - sees[0], sees[-1] - 50)


def test_an_object_lists_every_layer_or_more() -> None:
    """Attributes that are set later are not checked by the class: its model ignores what is past the last layer."""
    made = transformers.MiniMaxConfig(num_hidden_layers=4)
    made.num_hidden_layers = 2
    positions = read(made)
    assert len(positions.layer_types) == len(positions.windows) == 2
    made.num_hidden_layers = 8
    with pytest.raises(InvalidArgument, match="layer_types has 4 entries, but num_hidden_layers is 8; list every"):
        read(made)


def test_two_ropes_of_deepseek_v4_that_are_none() -> None:
    made = transformers.DeepseekV4Config()
    flat = {key: value for key, value in made.to_dict().items() if key != "rope_parameters"}
    made.rope_parameters = {**made.rope_parameters, "main": 1.5}
    with pytest.raises(InvalidArgument, match=r"rope_parameters\['main'\]=1.5 must be a dictionary"):
        read(made)
    with pytest.raises(InvalidArgument, match=r"refuses the config.*routed_scaling_factor"):
        read(flat | {"rope_theta": 1e4, "routed_scaling_factor": 0})
