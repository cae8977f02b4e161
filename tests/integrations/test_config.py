"""Configs are read strictly, written back, and loaded by transformers with the same positions."""

import copy
import json
import subprocess
import sys
import textwrap
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from packaging.version import Version
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import posenc.integrations.huggingface
from posenc.encodings.catalogue import canonical
from posenc.encodings.text import Recipe, parse
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import changes, read, write
from posenc.integrations.huggingface.families import FAMILIES
from posenc.scaling import (
    Default,
    DynamicNTK,
    LengthScaling,
    Linear,
    Llama3,
    Scaling,
    YaRN,
)
from support import tiny_models
from support.fuzzing import CLOSE, rotations
from support.places import CONFIGS


def config(name: str) -> dict[str, Any]:
    return json.loads((CONFIGS / f"{name}.json").read_text())


def rotary(
    dim: int, base: float, scaling: Scaling | LengthScaling | None = None, turn: int = 0, pairing: str = "half"
) -> Recipe:
    settings = {"head_dim": dim, "rotary_dim": turn or dim, "pairing": pairing, "base": base}
    return Recipe("rotary").with_(**settings, scaling=scaling or Default())


NOPE = Recipe("nope")


def table(rows: int, width: int) -> Recipe:
    return Recipe("learned").with_(num_positions=rows, width=width)


def alibi(heads: int, exponent: float) -> Recipe:
    return Recipe("alibi").with_(heads=heads, max_exponent=exponent)


READ: dict[str, tuple[dict[str, object], int, int]] = {
    "llama-3.1-8b": ({"all": rotary(128, 5e5, Llama3())}, 8192, 131_072),
    "yarn-llama-2-7b-128k": ({"all": rotary(128, 1e4, YaRN(32, 4096))}, 4096, 131_072),
    "mistral-7b": ({"all": rotary(128, 1e4)}, 32_768, 32_768),
    "qwen2.5-7b-yarn": ({"all": rotary(128, 1e6, YaRN(4, 32_768))}, 32_768, 32_768),
    "gemma-3-4b": (
        {"full_attention": rotary(256, 1e6, Linear(8)), "sliding_attention": rotary(256, 1e4)},
        131_072,
        131_072,
    ),
    "pythia-1.4b": ({"all": rotary(128, 1e4, turn=32)}, 2048, 2048),
    "gpt-j-6b": ({"all": rotary(256, 1e4, turn=64, pairing="interleaved")}, 2048, 2048),
    "gpt-oss-20b": ({"all": rotary(64, 1.5e5, YaRN(32, 4096, truncate=False))}, 4096, 131_072),
    "deepseek-v3": (
        {"all": rotary(64, 1e4, YaRN(40, 4096, mscale=1.0, mscale_all_dim=1.0), pairing="interleaved")},
        4096,
        163_840,
    ),
    "smollm2-135m": ({"all": rotary(64, 1e5)}, 8192, 8192),
    "smollm3-3b": ({"rotary": rotary(128, 5e6), "nope": NOPE}, 65_536, 65_536),
    "falcon-7b": ({"all": rotary(64, 1e4)}, 2048, 2048),
    "bloom-7b1": ({"all": alibi(32, 8)}, 2048, 2048),
    "mpt-7b-storywriter": ({"all": alibi(32, 16)}, 65_536, 65_536),
    "gpt2": ({"all": table(1024, 768)}, 1024, 1024),
    "bert-base": ({"all": table(512, 768)}, 512, 512),
}


@pytest.mark.parametrize("name", READ)
def test_real_configs(name: str) -> None:
    kinds, original, longest = READ[name]
    positions = read(CONFIGS / f"{name}.json")
    assert dict(positions.recipes) == kinds
    assert (positions.original_length, positions.max_length) == (original, longest)
    assert set(positions.layer_types) == set(kinds)
    for recipe in positions.recipes.values():  # a text that anybody can pass on
        assert canonical(parse(str(recipe))) == canonical(recipe)


SIZES = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 256}


@pytest.mark.parametrize(
    ("given", "recipes", "layer_types"),
    [
        (
            {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 2e4, "head_dim": 16}
            | {"num_hidden_layers": 6},
            {
                "full_attention": rotary(16, 1e6).with_(softmax_factor=0.25),
                "sliding_attention": rotary(16, 2e4).with_(softmax_factor=0.25),
            },
            (*("sliding_attention",) * 5, "full_attention"),
        ),
        (
            {"model_type": "modernbert", "global_rope_theta": 8e4, "local_rope_theta": 2e4},
            {"full_attention": rotary(16, 8e4), "sliding_attention": rotary(16, 2e4)},
            ("full_attention", "sliding_attention", "sliding_attention", "full_attention"),
        ),
        (
            {"model_type": "cohere2", "rope_theta": 5e4, "sliding_window": 8, "layer_switch": 4}
            | {"rotary_pct": 1.0, "position_embedding_type": "rope_gptj"},
            {"rotary": rotary(16, 5e4, pairing="interleaved"), "nope": NOPE},
            ("rotary", "rotary", "rotary", "nope"),
        ),
        (
            {"model_type": "olmo3", "rope_theta": 5e5, "layer_types": ["sliding_attention", "full_attention"] * 2}
            | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
            {"full_attention": rotary(16, 5e5, YaRN(4, 64)), "sliding_attention": rotary(16, 5e5)},
            ("sliding_attention", "full_attention") * 2,
        ),
    ],
    ids=["gemma3", "modernbert", "cohere2", "olmo3"],
)
def test_layer_types_by_pattern_and_their_bases(
    given: dict[str, Any], recipes: dict[str, Recipe], layer_types: tuple[str, ...]
) -> None:
    """Older spellings: which layers are full follows from a number, and sliding layers have a base of their own."""
    positions = read({**SIZES, **given})
    assert (positions.recipes, positions.layer_types) == (recipes, layer_types)


def test_a_missing_base_is_never_guessed() -> None:
    with pytest.raises(InvalidArgument, match="no 'rope_theta', and a default would be a guess"):
        read(config("llama-2-7b"))
    assert read(config("llama-2-7b"), base=10_000).recipes == {"all": rotary(128, 1e4)}


LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 1e4,
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"rope_scalling": YARN}, "unknown key of model_type 'llama' 'rope_scalling'; did you mean 'rope_scaling'"),
    ({"rope_teta": 5e5}, "'rope_teta'; did you mean 'rope_theta'"),
    ({"n_embd": 768}, "n_embd=768 contradicts hidden_size=256, which transformers reads in model_type 'llama'"),
    ({"max_postion_embeddings": 8}, "'max_postion_embeddings'; did you mean 'max_position_embeddings'"),
    ({"rotary_pct": 0.25}, "unknown key of model_type 'llama' 'rotary_pct'"),
    ({"rope_scaling": {**YARN, "beta_fas": 3}}, "'beta_fas'; did you mean 'beta_fast'"),
    ({"rope_scaling": {**YARN, "low_freq_factor": 1}}, "unknown key of rope_type 'yarn' 'low_freq_factor'"),
    ({"rope_scaling": {**YARN, "type": "yarm"}}, "unknown rope_type 'yarm'; did you mean 'yarn'"),
    ({"rope_scaling": {**YARN, "rope_type": "linear"}}, "rope_type='linear' contradicts type='yarn'"),
    (
        {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        "has no 'original_max_position_embeddings', .*add the value that the model was trained with",
    ),
    ({"rope_scaling": {"type": "linear"}}, "rope_type 'linear' needs 'factor', which is missing; add it"),
    ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor=0.5 must be a finite number of at least 1"),
    ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, "M-RoPE"),
    ({"rope_scaling": [1]}, r"rope_scaling=\[1\] must be a dictionary"),
    ({"rope_scaling": YARN, "rope_parameters": {"factor": 2}}, "both given and differ"),
    (
        {"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [2]}},
        "has no 'original_max_position_embeddings', .*add the value that the model was trained with",
    ),
    (
        {
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1],
                "long_factor": [2],
                "original_max_position_embeddings": 64,
            }
        },
        "factors has 1 numbers but must have 32 for rotary_dim=64",
    ),
    (
        {"rope_scaling": {"type": "dynamic", "factor": 2, "original_max_position_embeddings": 64}},
        "contradicts max_position_embeddings=4096",
    ),
    ({"rope_scaling": {"type": "linear", "factor": 2, "partial_rotary_factor": 0.5}}, "rotates every channel"),
    ({"dual_chunk_attention_config": {"chunk_size": 8}}, r"Dual Chunk Attention .* use posenc.remap.DCA"),
    ({"model_type": "lama"}, "unknown model_type 'lama'; did you mean 'llama'"),
    ({"hidden_size": None}, "llama' has no 'hidden_size', .*add the value"),
    ({"hidden_size": 250}, "hidden_size=250 must be a multiple of num_attention_heads=4; correct"),
    ({"rope_parameters": {"full_attention": YARN, "factor": 2}}, "has one rope dictionary for all layers; put"),
    (
        {"rope_parameters": {"full_attention": YARN}, "layer_types": ["sliding_attention"] * 2},
        "has one rope dictionary for all layers; put its keys directly",
    ),
]


def test_the_base_in_the_rope_dictionary_is_the_one_that_transformers_5_takes() -> None:
    """Beside another one, which version 4 takes: both stand in a note."""
    positions = read({**LLAMA, "rope_scaling": {**YARN, "rope_theta": 5e5}})
    assert positions.rotary.get("base") == 5e5
    assert positions.assumed == ("rope_theta = 500000 from the rope dictionary, not rope_theta = 10000",)


@pytest.mark.parametrize(("broken", "message"), BROKEN)
def test_refusals(broken: dict[str, Any], message: str) -> None:
    read(LLAMA)
    with pytest.raises(InvalidArgument, match=message):
        read({**LLAMA, **broken})


def test_mpt_keeps_its_positions_in_a_dictionary_of_their_own() -> None:
    mpt = config("mpt-7b-storywriter")
    off = {**mpt["attn_config"], "rope": False, "rope_theta": 10_000, "rope_impl": "dail"}
    assert read({**mpt, "attn_config": off}).recipes == {"all": alibi(32, 16)}


def test_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read(tmp_path) == read(str(tmp_path / "config.json")) == read(LLAMA)
    (tmp_path / "model.gguf").write_bytes(b"GGUF\x03\0\0\0")
    for name, message in (
        (tmp_path / "none.json", "cannot be read"),
        (tmp_path / "model.gguf", r"is a GGUF file, which has .*; pass the config.json of"),
        ("/dev/zero", "/dev/zero is not JSON"),  # which has no end
    ):
        with pytest.raises(InvalidArgument, match=message):
            read(name)
    for damaged in ("{", '{"a":' * 100_000, "\xff", "[]"):
        (tmp_path / "config.json").write_text(damaged, encoding="latin-1")
        with pytest.raises(InvalidArgument, match=f"is not JSON|{tmp_path} is a list; expected"):
            read(tmp_path)


def test_other_code_than_the_config_says_is_a_trouble() -> None:
    shape = {
        "image_size": 56,
        "patch_size": 14,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
    }
    told = read({"model_type": "step3p5_vision", **shape}).known_issues
    assert told == ("transformers up to 5.22.2 does not follow this config; newer versions do",)


def test_no_trouble_is_told_of_versions_that_the_metadata_excludes() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (lowest,) = [one for one in project["optional-dependencies"]["hf"] if one.startswith("transformers>=")]
    told = {one.wrong_up_to_version for one in FAMILIES.values()} - {None}
    assert {one for one in told if Version(one) < Version(lowest.removeprefix("transformers>="))} == set()


NEEDS = {"cache.py"}  # what extends a class of transformers, and is imported by its own name


def test_without_transformers_one_sentence_says_what_to_install() -> None:
    """Nothing here imports it before a config is read, and then only its config classes."""
    folder = Path(posenc.integrations.huggingface.__file__).parent
    for file in folder.glob("*.py"):
        lines = file.read_text().splitlines()
        told = [n for n in lines if n.startswith(("import transformers", "from transformers"))]
        assert bool(told) == (file.name in NEEDS), file.name
    reads = """
        import sys
        sys.modules["transformers"] = None
        import posenc.integrations.position_table
        from posenc.integrations.huggingface import read
        sizes = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 64, "rope_theta": 1e4}
        read({"model_type": "llama", **sizes})
    """
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(reads)], capture_output=True, text=True)
    assert child.stderr.splitlines()[-1] == (
        "posenc.errors.MissingExtra: transformers is not installed; type: pip install 'posenc[hf]'"
    )


def test_all_spellings_read_the_same() -> None:
    """v4's two type keys, and v5's form with its base outside and inside."""
    yarn = {"factor": 4.0, "original_max_position_embeddings": 1024, "beta_fast": 16}
    plain = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    spellings = [
        {**LLAMA, "rope_scaling": {"type": "yarn", **yarn}},
        {**LLAMA, "rope_scaling": {"rope_type": "yarn", **yarn}},
        {**LLAMA, "rope_parameters": {"rope_type": "yarn", **yarn}},
        {**plain, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, **yarn}},
    ]
    want = rotary(64, 1e4, YaRN(4, 1024, beta_fast=16))
    assert all(set(read(spelling).recipes.values()) == {want} for spelling in spellings)


def test_changes_are_a_config_patch() -> None:
    patch = changes(read(LLAMA), YaRN(4.0, 4096), spelling="v4")
    assert patch["max_position_embeddings"] == 16_384
    assert patch["rope_scaling"]["rope_type"] == "yarn"
    assert set(patch) == {"max_position_embeddings", "rope_scaling"}
    assert read({**LLAMA, **patch}).rotary.get("scaling") == YaRN(4.0, 4096)
    assert changes(read(LLAMA), DynamicNTK(2.0, 4096), spelling="v4").keys() == {"rope_scaling"}


def test_writing_what_has_no_place() -> None:
    for given, how, message in (
        (config("gpt-j-6b"), {"scaling": Linear(2.0)}, "'gptj' has no key for"),
        (config("gemma-3-4b"), {"spelling": "v4"}, "several dictionaries; use spelling='v5'"),
        (LLAMA, {"spelling": "v6"}, "unknown spelling 'v6'"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            write(read(given), **how)
    with pytest.raises(InvalidArgument, match="'gpt2' has no rotary layers"):
        _ = read(config("gpt2")).rotary


@pytest.mark.parametrize(
    ("kind", "own"),
    {
        "HunYuanDenseV1": {"head_dim": 16},
        "HunYuanMoEV1": {"head_dim": 16, "num_experts": 2, "moe_topk": 1},
        "NanoChat": {},
        "Llama4Text": {"num_local_experts": 2, "head_dim": 16, "intermediate_size_mlp": 64, "use_qk_norm": True},
        "Llama": {},
    }.items(),
)
def test_a_norm_after_rotation_divides_an_attention_factor_out(kind: str, own: dict[str, Any]) -> None:
    """Told of exactly the classes whose own code gives the same with any factor."""

    def model(factor: float) -> torch.nn.Module:
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 1e4}
        entry = {"max_position_embeddings": 128, "rope_parameters": {**yarn, "attention_factor": factor}}
        made = getattr(transformers, f"{kind.removesuffix('Text')}ForCausalLM")
        return tiny_models.sharp(made, {**tiny_models.SIZES, "num_hidden_layers": 1, **own, **entry})

    plain, scaled = model(1.0), model(2.0)
    with torch.no_grad():
        a, b = (m(torch.arange(3, 43)[None]).logits for m in (plain, scaled))
    told = [issue for issue in read(scaled.config).known_issues if issue.endswith("attention factor of 2")]
    assert bool(told) == torch.allclose(a, b, rtol=0, atol=1e-3 * float(a.std()))
    assert read(plain.config).known_issues == ()
    assert bool(told) == (kind != "Llama")


@pytest.mark.parametrize("kind", ["Phimoe", "Phi3"])
def test_a_class_that_keeps_the_short_list_for_long_inputs_is_named(kind: str) -> None:
    outside = {"original_max_position_embeddings": 16} if kind == "Phi3" else {}
    rope = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "original_max_position_embeddings": 16,
        "short_factor": [1.0] * 8,
        "long_factor": [4.0] * 8,
        **({"short_mscale": 1.0, "long_mscale": 1.0} if kind == "Phimoe" else {}),
    }
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64}
    made = getattr(transformers, f"{kind}Config")(**sizes, **outside, rope_parameters=rope, pad_token_id=0)
    code = import_module(f"transformers.models.{kind.lower()}.modeling_{kind.lower()}")
    rotary = getattr(code, f"{kind}RotaryEmbedding")(made)
    with torch.no_grad():
        short, long = (rotary(torch.zeros(1, 1, 4), torch.arange(n)[None])[0][0, 5] for n in (16, 17))
    keeps = torch.allclose(short / short[-1], long / long[-1])
    assert any("short list of factors at every length" in text for text in read(made).known_issues) is keeps
    assert keeps is (kind == "Phimoe")


def test_numbers_that_json_lacks_are_read_as_transformers_writes_them(tmp_path: Path) -> None:
    config = transformers.FalconH1Config(rope_parameters={"rope_type": "default", "rope_theta": 1e4})
    config.save_pretrained(tmp_path)
    assert "__float__" in (tmp_path / "config.json").read_text()
    assert read(tmp_path / "config.json").rotary.get("base") == 1e4


@pytest.mark.parametrize("as_object", [False, True])
def test_an_original_length_around_the_rope_dictionary_wins_as_in_the_models_own_module(as_object: bool) -> None:
    """transformers' rotary module takes the one beside the dictionary, whatever the config object still holds."""
    yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
    config = {
        **CONFIG_MAPPING["gpt_oss"]().to_dict(),
        "rope_parameters": {**yarn, "rope_theta": 150_000.0},
        "original_max_position_embeddings": 2880,
    }
    made = CONFIG_MAPPING["gpt_oss"].from_dict(copy.deepcopy(config))
    positions = read(copy.deepcopy(made) if as_object else config)
    assert positions.rotary.get("scaling").original_length == 2880
    for own, ours in rotations(made, positions):
        torch.testing.assert_close(ours, own, rtol=0, atol=CLOSE)
