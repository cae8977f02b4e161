"""No key about positions is passed over, and what a config leaves out is read as transformers takes it."""

from typing import Any

import pytest
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.encodings.encoding import Encoding
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read, write
from posenc.integrations.huggingface.config import contents
from posenc.integrations.huggingface.families import FAMILIES, SKIPS_SHARE
from posenc.integrations.huggingface.keys import check_made, known_keys
from posenc.integrations.huggingface.measuring import measure
from posenc.integrations.huggingface.schema import KEYS, RARE
from posenc.integrations.programs import sglang, vllm
from posenc.scaling import Default, Linear, YaRN
from support.field.case import DATA
from support.small_models import check_read

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4, "max_position_embeddings": 64}
BY_TYPE = {name: {"rope_theta": 1e4} for name in ("sliding_attention", "full_attention")}
LONG = {
    "type": "longrope",
    "original_max_position_embeddings": 16,
    "short_factor": [1.0] * 8,
    "long_factor": [4.0] * 8,
}
LINEAR = {"rope_type": "linear", "factor": 4.0}


def config(model_type: str, **more: Any) -> dict[str, Any]:
    return {"model_type": model_type, **SIZES, "rope_theta": 1e4, **more}


def test_a_length_that_only_servers_read_is_noted() -> None:
    """As in Command-R's config."""
    command_r = config("cohere", model_max_length=131072, max_position_embeddings=8192)
    positions = read(command_r)
    assert positions.max_length == 8192
    assert "transformers reads max_position_embeddings=8192, not model_max_length=131072" in positions.assumed
    for program, version in ((vllm, "0.29.0"), (vllm, "0.33.0"), (sglang, "0.5.15"), (sglang, "0.5.23")):
        assert program.read(command_r, version).admitted_length == 131072


def test_the_share_that_released_files_of_glm_4_leave_out() -> None:
    """As in THUDM's glm-4-9b-hf and glm-4-9b-chat-hf; the config class then takes 0.5."""
    given = read(config("glm"))
    assert given.rotary.get("rotary_dim") == given.rotary.get("head_dim") // 2
    made = transformers.AutoConfig.for_model(**config("glm"))
    del made.rope_parameters["partial_rotary_factor"]  # then its module rotates every channel
    assert read(made).rotary.get("rotary_dim") == given.rotary.get("head_dim")


def test_what_is_taken_for_unsaid_is_noted() -> None:
    assert read(config("gemma2")).rotary.get("head_dim") == 256
    assert {
        f"{said}, the default of transformers {transformers.__version__} for {model_type}"
        for said, model_type in (
            ("head_dim = 256", "gemma2"),
            ("hidden_size = 4096", "llama"),
            ("num_attention_heads = 32", "llama"),
        )
    } <= {
        *read(config("gemma2")).assumed,
        *read({"model_type": "llama", "max_position_embeddings": 64, "rope_theta": 1e4}).assumed,
    }
    assert read(config("deepseek_v3")).rotary.get("rotary_dim") == 64
    assert read(config("cohere2")).layer_types == ("rotary", "rotary", "rotary", "nope")
    assert read(config("gpt_oss")).rotary.get("scaling") == YaRN(32, 4096, truncate=False)
    both = read(config("modernbert", rope_theta=None, rope_scaling=LINEAR))
    assert {recipe.get("scaling") for recipe in both.recipes.values()} == {Linear(4)}
    gemma = read(config("gemma3_text", rope_scaling=LINEAR, num_hidden_layers=6))
    assert {name: one.get("scaling") for name, one in gemma.recipes.items()} == {
        "full_attention": Linear(4),
        "sliding_attention": Default(),
    }


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
MPT = {"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}
WHISPER = {"model_type": "whisper", "d_model": 64, "encoder_layers": 4, "max_target_positions": 448}
GPTJ = {"model_type": "gptj", "n_positions": 64, "n_head": 4, "n_embd": 64, "n_layer": 2, "rotary_dim": 8}
GEMMA = config("gemma3_text", head_dim=16)
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(
        (config("llama", **{key: 32}), rf"'{key}'; did you mean 'head_dim'")
        for key in ("headdim", "had_dim", "Head_dim")
    ),
    (
        config("llama", kv_channels=32),
        "kv_channels=32 must be named 'head_dim' in model_type 'llama'; rename",
    ),
    (
        config("llama", head_size=32),
        "head_size=32 must be named 'head_dim' in model_type 'llama'; rename it",
    ),
    (config("cohere2", rotary_pct=0.5), "unknown key of model_type 'cohere2' 'rotary_pct'"),
    (config("cohere2", slidingwindow=8), "'slidingwindow'; did you mean 'sliding_window'"),
    (config("exaone4", **{"sliding-window": None}), "'sliding-window'; did you mean 'sliding_window'"),
    (config("llama", num_attention_head=4), "'num_attention_head'; did you mean 'num_attention_heads'"),
    (config("llama", hidden_sise=4), "'hidden_sise'; did you mean 'hidden_size'"),
    (config("llama", layer_type=["full_attention"] * 4), "'layer_type'; did you mean 'layer_types'"),
    *((config("llama", **{key: LINEAR}), key) for key in ("ROPE_SCALING", "RoPE_scaling", "ropeScaling")),
    ({**MPT, "attn_confg": {"alibi_bias_max": 16}}, "unknown key of model_type 'mpt' 'attn_confg'"),
    ({**MPT, "attn_config": [1]}, r"attn_config=\[1\] must be a dictionary"),
    *(
        ({**MPT, "attn_config": {"alibi": True, **wrong}}, message)
        for wrong, message in (
            ({"alibi_bias_mx": 8}, "'alibi_bias_mx'; did you mean 'alibi_bias_max'"),
            ({"rope": True, "rope_theta": 1e4}, "unknown key of model_type 'mpt' 'rope"),
            ({"alibi": False}, "alibi=False is not supported in model_type 'mpt'"),
        )
    ),
    ({"model_type": "gemma3", "rope_theta": 5, "text_config": GEMMA}, "rope_theta=5 is outside text_config"),
    ({"model_type": "gemma3", "rope_scaling": LINEAR, "text_config": GEMMA}, "move it into text_config, or remove"),
    ({"model_type": "gemma3", "head_dim": 32, "text_config": GEMMA}, "head_dim=32 is outside text_config"),
    ({"model_type": "gemma3", "text_config": [1]}, r"text_config is \[1\]; expected a dictionary"),
    ({"hidden_size": 64}, "the config has no 'model_type'.*; add a type, such as 'llama'"),
    ({**GEMMA, "model_type": "gemma3"}, "has its language model in text_config, which is missing"),
    ({**GPTJ, "rope_scaling": LINEAR}, "unknown key of model_type 'gptj' 'rope_scaling'"),
    ({**GPTJ, "rope_theta": 5e5}, "unknown key of model_type 'gptj' 'rope_theta'"),
    ({**GPTJ, "hidden_size": 32}, "n_embd=64 contradicts hidden_size=32; keep one of them"),
    ({**GPTJ, "hidden_size": None}, "n_embd=64 contradicts hidden_size=None; keep one of them"),
    (
        {"model_type": "qwen2_5_vl_vision", "depth": 2, "num_heads": 16, "num_attention_heads": 112},
        "num_heads=16 contradicts num_attention_heads=112; keep one of them",
    ),
    ({**WHISPER, "num_hidden_layers": None}, "encoder_layers=4 contradicts num_hidden_layers=None; keep one"),
    *(
        (
            config("modernbert", rope_theta=None, local_rope_theta=base),
            "local_rope_theta=.* a number above 0 and below",
        )
        for base in (float("nan"), -8, 0, float("inf"), "8")
    ),
    (
        {**MPT, "attn_config": {"alibi": True, "alibi_bias_max": float("nan")}},
        "alibi_bias_max=nan must be a number above 0",
    ),
    (
        {"model_type": "bloom", "n_head": 0, "n_layer": 2, "seq_length": 64},
        "n_head=0 must be a whole number from 1 to",
    ),
    (config("falcon", alibi="false"), "alibi='false' must be true or false; correct it"),
    (
        config("cohere2", layer_types=["full_attention"]),
        r"refuses .*`num_hidden_layers` \(4\) must be equal to the number of `layer_types` \(1\)",
    ),
    (
        config("llama4_text", attention_chunk_size=8, layer_types=["full_attention"]),
        r"refuses .*`num_hidden_layers` \(4\) must be equal to the number of `layer_types` \(1\)",
    ),
    (
        config("olmo3", rope_theta=5e5, layer_types=["banana"] * 4),
        r"refuses the config: .*`layer_types` entries must be in .*banana",
    ),
    (
        config("gemma3_text", rope_scaling={"type": "linear", "factor": 4.0}, num_hidden_layers=6),
        "contradicts",
    ),
    *(
        (
            {**config(name, rope_parameters={**LINEAR, "rope_theta": 1e4}), "rope_theta": None},
            rf"the keys \['factor', 'rope_theta', 'rope_type'\] outside its dictionaries, but model_type '{name}' "
            "has one rope dictionary per layer type; move the keys",
        )
        for name in ("gemma3_text", "gemma4_text", "olmo3")
    ),
    (
        config("gemma3_text", rope_theta=None, rope_scaling=LINEAR, layer_types=["full_attention"]),
        r"refuses .*`num_hidden_layers` \(4\) must be equal to the number of `layer_types` \(1\)",
    ),
    (
        config("modernbert", global_rope_theta=16e4, local_rope_theta=1e4),
        "rope_theta=10000.0 has no effect: transformers' class for 'modernbert' uses base 160000.0",
    ),
    *(
        (
            config(name, **off),
            "transformers reads sliding_window=(None|0), but some layers have a window; give its width",
        )
        for name, off in (
            ("gemma2", {"sliding_window": None}),
            ("cohere2", {"sliding_window": None}),
            ("mistral", {"sliding_window": 0}),
            ("qwen2_moe", {"use_sliding_window": False, "layer_types": ["sliding_attention"] * 4}),
            ("qwen3", {"sliding_window": 8, "use_sliding_window": False, "layer_types": ["sliding_attention"] * 4}),
        )
    ),
    (
        config("glm4", partial_rotary_factor=0.5, rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 1}),
        "partial_rotary_factor=1 in the rope dictionary contradicts partial_rotary_factor=0.5 outside the dict",
    ),
    *(
        (config("llama", **{key: value}), f"{key}=.* must be a whole number from 1 to")
        for key in ("max_position_embeddings", "num_hidden_layers", "head_dim", "num_attention_heads")
        for value in (-1, 0, 1.5, True, "8", [], float("nan"), float("inf"), 1e30, 10**30)
    ),
    *(
        (config("llama", **{key: 4}), f"unknown key of model_type 'llama' '{key}'")
        for key in ("scaling_factor", "original_max_length", "attention_chunk_size")
    ),
    *(
        (config("llama", **{key: True}), f"unknown key of model_type 'llama' '{key}'")
        for key in ("logn_attn", "use_logn_attn", "attn_temperature_tuning", "relative_attention", "use_mrope")
    ),
    *(
        (config("llama", **{key: value}), f"{key}=.* is outside the rope dictionary, where it has no effect")
        for key, value in {"factor": 4, "attention_factor": 4, "long_factor": [1.0], "rope_type": "yarn"}.items()
    ),
    (config("llama", llama_4_scaling_beta=0.1), "unknown key of model_type 'llama' 'llama_4_scaling_beta'"),
    (
        config("git", text_config=config("llama")),
        "text_config is not allowed in the config of a language model .model_type 'git'.; move the keys",
    ),
    (
        {"model_type": "gemma4", "text_config": {"text_config": config("gemma4_text")}},
        "text_config is not allowed in the config of a language model .model_type 'gemma4'.",
    ),
    (
        {
            **config("cohere2_moe"),
            "rope_parameters": {"rope_theta": None, "rope_type": "default"},
            "rope_theta": 1e4,
        },
        "rope_theta=None must be",
    ),
    (config("bamba", attn_rotary_emb=4), "attn_rotary_emb=4 contradicts partial_rotary_factor=0.5 of 16 channels"),
    (
        {"model_type": "roformer", "rotary_value": True},
        "rotary_value=True also rotates values, which posenc does not compute",
    ),
    *(
        (
            config(name, rope_parameters=BY_TYPE),
            f"'full_attention', 'sliding_attention'.*model_type '{name}' has one rope dictionary for all layers",
        )
        for name in ("exaone4", "cohere2")
    ),
    ({"model_type": "ernie4_5_vl_moe"}, "the language model is described by text_config, which is missing"),
    (
        config("phimoe", rope_scaling={**LONG, "short_mscale": 1.1, "long_mscale": 1.2}),
        "short_mscale=1.1 and long_mscale=1.2 must be equal",
    ),
    (config("glm4", partial_rotary_factor=None), "no 'partial_rotary_factor', and a default would be a guess"),
    (config("llama", sliding_window=8), "unknown key of model_type 'llama' 'sliding_window'"),
    (config("llama", rope_theta=""), "rope_theta='' must be a number above 0 and below .*; correct it"),
    (config("llama", rope_scaling={"rope_type": ["yarn"]}), r"rope_type=\['yarn'\] must be a name"),
    (
        config("llama", rope_scaling={**YARN, "original_max_position_embeddings": 1.5}),
        "original_max_position_embeddings=1.5 must be a whole number from 1",
    ),
    (
        config("llama", rope_scaling={"rope_type": "longrope", "short_factor": 1.0, "long_factor": [1.0]}),
        "short_factor=1.0 must be a list in which each entry is a number above 0 and below",
    ),
    (
        {"model_type": "t5", "relative_attention_num_buckets": 33},
        "relative_attention_num_buckets=33 must be an even number of at least 4",
    ),
    (config("olmo3", layer_types=float("nan")), "layer_types=nan must be a list in which each entry is a name"),
    (
        config("llama", rope_parameters={"rope_type": "proportional", "partial_rotary_factor": 0}),
        "partial_rotary_factor=0 must be a number above 0 and at most 1",
    ),
    (config("qwen3", head_dim=None), "refuses the config: .*'head_dim' expected int, got NoneType"),
    (
        config("xlnet"),
        "model_type 'xlnet' of transformers .* is not a family that posenc reads, and Llama's rule does not "
        "fit it: the config has 'd_model', which Llama's config lacks; measure its positions",
    ),
    (
        {"model_type": "paligemma", "text_config": {"model_type": "gemma", "rope_theta": 1e4}},
        "no 'max_position_embeddings', and a default would be a guess; add the value that",
    ),
    (config("llama", partial_rotary_factor=False), "unknown key of model_type 'llama' 'partial_rotary_factor'"),
    (config("llama", rope_scaling={**YARN, "truncate": None}), "truncate=None must be true or false"),
    (config("falcon", n_embed=32), "n_embed=32 contradicts hidden_size=64, which transformers reads"),
    ({**config("llama"), 5: 1}, "a key of the config is 5; expected a string; write it in quotes"),
    (
        {
            "model_type": "deberta-v2",
            "hidden_size": 2,
            "num_attention_heads": 4,
            "relative_attention": True,
            "position_biased_input": False,
            "pos_att_type": "c2p|p2c",
        },
        "hidden_size=2 must be a multiple of num_attention_heads=4",
    ),
    # towers
    ({"model_type": "vit", "image_size": 8}, "patch_size=16 must be at most image_size=8"),
    ({"model_type": "vit", "patch_size": 0}, "patch_size=0 must be a size, or one for each side"),
    (
        {"model_type": "pixtral", "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
        "supports only rope_type='axial' with partial_rotary_factor=1",
    ),
    ({"model_type": "pixtral", "rope_parameters": {"rope_theta": [1]}}, r"rope_theta=\[1\] must be a number"),
    (
        {"model_type": "qwen3_vl_vision", "num_position_embeddings": 10},
        "=10 must be the square of a whole number",
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=str)
def test_refusals_name_key_and_value(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(given)


@pytest.mark.parametrize(
    "given",
    [
        config("qwen2", use_mrope=False),
        config("llama", use_rope=True),
        config("llama", use_logn_attn=False, rope_interleaved=False, alibi=None),
        config("llama", head_size=16, head_dim=16),
        config("llama", v_head_dim=8, num_layers=4, ffn_hidden_size=8, sliding_window=None),
        config("llama", sliding_window=8, use_sliding_window=False),
        {"model_type": "llava", "hidden_size": 8, "text_config": config("llama")},
        {"model_type": "musicflamingo", "rope_parameters": LINEAR, "text_config": config("llama")},
        {
            "model_type": "qwen3_omni_moe_thinker",
            "position_id_per_seconds": 25,
            "text_config": config("qwen3_omni_moe_text", head_dim=128),
        },
        {
            "model_type": "gemma3",
            "head_dim": 16,
            "text_config": {k: v for k, v in GEMMA.items() if k != "model_type"},
        },
    ],
    ids=str,
)
def test_flags_that_are_off_and_keys_that_say_the_same_do_no_harm(given: dict[str, Any]) -> None:
    positions = read(given)
    assert all(recipe.get("base") == 1e4 or name == NEAR for name, recipe in positions.recipes.items())
    assert positions.source["model_type"] in FAMILIES


@pytest.mark.parametrize("model_type", [name for name, one in FAMILIES.items() if one.kind == "learned"])
def test_the_longest_input_has_a_row_in_a_learned_table(model_type: str) -> None:
    """RoBERTa's length counts rows before that of position 0."""
    positions = read(CONFIG_MAPPING[model_type]())
    rows = positions.encodings()[positions.layer_types[-1]].position_limit
    assert rows in (positions.max_length, Encoding.position_limit)


NEAR = "sliding_attention"


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (config("qwen3", use_sliding_window=True, sliding_window=8), "because max_window_layers = 28"),
        (config("qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=4), "max_window_layers = 4"),
        (config("cohere2", sliding_window=8, layer_types=["full_attention"] * 4), "layer_types has no 'sliding"),
        (config("moshi", sliding_window=8), "the model's code ignores it"),
        (config("minimax", sliding_window=8, layer_types=["linear_attention"] * 4), "has no 'full_attention'"),
        (config("nemotron_h", sliding_window=8), "the model's code ignores it"),
        (config("qwen3_omni_moe_text", sliding_window=8, head_dim=128), "the model's code ignores it"),
    ],
    ids=str,
)
def test_a_window_that_limits_no_layer_is_a_note(given: dict[str, Any], note: str) -> None:
    positions = read(given)
    assert not any(positions.windows)
    assert any(told.startswith("sliding_window = 8 limits no layer") and note in told for told in positions.assumed)


@pytest.mark.parametrize(
    ("model_type", "served"),
    [
        ("mistral", [None, 8, None, 8]),
        ("mixtral", [None] * 4),
        ("phi3", [None, 8, None, 8]),
        ("starcoder2", [None, 8, None, 8]),
    ],
)
def test_a_class_that_ignores_layer_types_gives_every_layer_its_window(
    model_type: str, served: list[int | None]
) -> None:
    """vLLM gives a window to layers of sliding_attention alone, and Mixtral's in vLLM have none."""
    types, more = ["full_attention", "sliding_attention"] * 2, {"pad_token_id": 0, "num_key_value_heads": 4}
    given = config(model_type, sliding_window=8, layer_types=types, **more)
    positions, table = read(given), vllm.read(given)
    assert positions.windows == (8,) * 4
    check_read(measure(given))  # of a dict
    assert any(
        f"transformers ignores layer_types of model_type {model_type!r}" in told for told in positions.assumed
    )
    assert [table.layers[kind].window for kind in table.layer_types] == served
    assert read({**given, "sliding_window": None}).windows == (None,) * 4


def test_an_empty_dictionary_that_replaces_the_other_is_refused() -> None:
    """From transformers 5.24, Laguna's class replaces its rope_parameters with an empty rope_scaling."""
    given = {"rope_scaling": {}, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}
    check_made(given, {}, given["rope_parameters"])
    with pytest.raises(InvalidArgument, match="both given and differ; keep rope_parameters"):
        check_made(given, {}, {})


def test_other_names_that_a_class_accepts_are_read() -> None:
    assert read({"model_type": "bloom", "n_embed": 64, "n_head": 4, "n_layer": 2}).recipes
    gemma = read(config("gemma3n_text", rope_local_base_freq=2e4, num_hidden_layers=5))
    assert {kind: recipe.get("base") for kind, recipe in gemma.recipes.items()} == {
        "full_attention": 1e4,
        "sliding_attention": 2e4,
    }
    phi = read(config("phimoe", rope_scaling={**LONG, "short_mscale": 1.2, "long_mscale": 1.2}))
    assert phi.rotary.get("scaling").attention_factor == 1.2
    assert read(write(phi)).recipes == phi.recipes
    assert "the encoder has 1500 positions, according to max_source_positions" in read(WHISPER).assumed


def test_a_pairing_that_the_code_does_not_ask_for_is_refused() -> None:
    """Ling 3's class interleaves whatever its config says; so a config that says halves was made for other code."""
    ling = contents(DATA / "ling3.json")
    assert read(ling).rotary.get("pairing") == "interleaved"
    with pytest.raises(InvalidArgument, match="rope_interleave"):
        read({**ling, "rope_interleave": False})


def test_a_family_is_called_unread_without_transformers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers.models.auto.configuration_auto", None)
    with pytest.raises(InvalidArgument, match="unknown model_type 'lama'; did you mean 'llama'"):
        read(config("lama"))


def test_every_key_that_a_family_names_is_in_the_schema() -> None:
    assert [
        name
        for name, family in FAMILIES.items()
        if name in CONFIG_MAPPING
        and not known_keys(family, name) <= {*KEYS, *RARE, "num_attention_groups"}  # Step-3.7's num_key_value_heads
    ] == []


@pytest.mark.parametrize("model_type", SKIPS_SHARE)
def test_a_share_that_transformers_does_not_read_is_a_note(model_type: str) -> None:
    from importlib import import_module

    rope = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
    config = CONFIG_MAPPING[model_type](head_dim=128, num_attention_heads=4, rope_parameters=rope)
    module = import_module(type(config).__module__.replace("configuration_", "modeling_"))
    rotary = next(value for name, value in vars(module).items() if name.endswith("RotaryEmbedding"))
    positions = read(config)
    assert positions.rotary.get("rotary_dim") == 2 * len(rotary(config).inv_freq) == 128
    assert any("partial_rotary_factor=0.25" in note for note in positions.assumed)
    with pytest.raises(InvalidArgument, match="rotates every channel; remove partial_rotary_factor"):
        read({**config.to_dict(), "rope_parameters": {**rope, "rope_type": "linear", "factor": 2.0}})
