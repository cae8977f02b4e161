"""What each program makes of a config: held to what it computes from it, and its known habits named."""

import json
import math
import sys
from dataclasses import replace
from importlib.metadata import version as installed
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.errors import InvalidArgument, PosencError
from posenc.integrations.differences import differences
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface import write as config_json
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.position_table import PositionTable, of
from posenc.integrations.program_tables import defaults
from posenc.integrations.programs import exllamav3, llama_cpp, mlx, sglang, transformers, vllm
from posenc.integrations.rope_dictionaries import ORIGINAL, kind_of
from posenc.integrations.words import has_windows
from posenc.scaling import LongRoPE, Proportional
from support.files import finish
from support.places import CONFIGS, ROOT
from support.processes import python
from support.served import (
    BASE,
    DEEPSEEK,
    LENGTH,
    MLX_SIZES,
    PLAIN,
    PROGRAMS,
    SCALINGS,
    VLLM,
    YARN,
    ask_mlx,
    asked,
)

SHARPER = 0.1 * math.log(4) + 1
BARE = {key: value for key, value in PLAIN.items() if key != "rope_theta"}
PAIR = {"mscale": 1.0, "mscale_all_dim": 0.5}
INSIDE = {key: value for key, value in YARN.items() if key not in ("rope_theta", ORIGINAL)}
BASE_INSIDE = {"rope_type": "linear", "rope_theta": 3.0, "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": LENGTH,
}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
    "original_max_position_embeddings": LENGTH,
}


def rope(**entry: Any) -> dict[str, Any]:
    """The plain model with this rope dictionary, four times as long."""
    return {**BARE, "max_position_embeddings": 4 * LENGTH, "rope_parameters": {"rope_theta": BASE, **entry}}


YARNS = [
    rope(**YARN),
    rope(**YARN, attention_factor=1.0),
    rope(**YARN, **PAIR),
    rope(**YARN, attn_factor=1.2),
    rope(**YARN, truncate=False, beta_fast=8.0),
]
ASKED = [
    rope(),
    *YARNS,
    rope(rope_type="linear", factor=4.0),
    rope(rope_type="dynamic", factor=4.0),
    rope(**LLAMA3),
    rope(**LONG),
    rope(**LONG, attention_factor=1.5, long_mscale=1.3, short_mscale=1.3),
    BARE,
    {**DEEPSEEK, "rope_parameters": YARN},
    {**DEEPSEEK, "rope_parameters": {**YARN, **PAIR}},
    {**DEEPSEEK, "rope_parameters": {**YARN, **PAIR, "attention_factor": 1.0}},
]


def only(table: PositionTable) -> Any:
    (layer,) = table.layers.values()
    return layer


def told(tool: str, *words: str) -> Any:
    """What a tool is told by the programs that are here."""
    code = f"import json; from tools.{tool} import asked; print(json.dumps(asked(*{words})))"
    return json.loads(python("-c", code, cwd=ROOT))


def same(table: PositionTable, tables: list[list[float]], positions: tuple[int, ...]) -> None:
    """cos and sin of every pair are those that a program answered with."""
    layer = only(table)
    frequencies = torch.tensor(layer.frequencies, dtype=torch.float64)
    angles = torch.tensor(positions)[:, None] * frequencies
    wanted = torch.cat((angles.cos(), angles.sin()), -1) * layer.attention_factor
    room = 2.0**-20 * (1 + torch.cat((angles, angles), -1)) * layer.attention_factor
    assert ((torch.tensor(tables, dtype=torch.float64) - wanted).abs() <= room).all()


POSITIONS = (0, 1, 2, 63)
BY_A_CLASS_OF_ITS_OWN = [
    {**DEEPSEEK, "rope_parameters": {"rope_theta": BASE, **LLAMA3}},
    {**DEEPSEEK, "rope_parameters": {"rope_theta": BASE, "rope_type": "linear", "factor": 4.0}},
]


@pytest.mark.programs
@pytest.mark.skipif(not PROGRAMS.exists(), reason="no servers here; type: python tools/programs.py")
@pytest.mark.parametrize(
    ("program", "script", "version"),
    [*((vllm, "ask_vllm.py", version) for version in VLLM), (sglang, "test_sglang.py", "0.5.23")],
    ids=["vllm 0.29.0", "vllm 0.33.0", "sglang"],
)
def test_servers_compute_what_is_read_of_them(program: Any, script: str, version: str) -> None:
    """The rotary files of vLLM, or those of SGLang that were vLLM's, compute from configs what the tables say."""
    configs = [*ASKED, *BY_A_CLASS_OF_ITS_OWN[: 2 if program is sglang else 1]]  # vLLM: KeyError for the second
    tables = [program.read(config, version) for config in configs]
    cases = [
        {
            "config": config,
            "overrides": {},
            "path": (),
            "served": table.admitted_length,
            "deepseek": config["model_type"] == "deepseek_v3",
            "head_dim": 16,
            "half": config["model_type"] == "llama",
            "positions": POSITIONS,
        }
        for config, table in zip(configs, tables, strict=True)
    ]
    answers = asked(script, f"{program.__name__.split('.')[-1]}-{version}", cases)
    for config, table, answer in zip(configs, tables, answers, strict=True):
        same(table, answer["tables"], POSITIONS)
        assert answer["scores"] == pytest.approx(only(table).softmax_factor), config
        assert answer["admitted"] == table.admitted_length, config


@pytest.mark.programs
@pytest.mark.skipif(
    not (PROGRAMS / "mlx-lm-0.32.2").exists(), reason="no mlx-lm here; type: python tools/programs.py"
)
@pytest.mark.parametrize("version", mlx.PROGRAM.releases.versions)
def test_mlx_computes_what_is_read_of_it(version: str) -> None:
    older = [
        {**config, "rope_theta": BASE, "rope_scaling": config.get("rope_parameters"), "rope_parameters": None}
        for config in [*ASKED, rope(**BASE_INSIDE)]
    ]
    configs = [config for config in (*ASKED, *older) if config.get("rope_scaling") != {"rope_theta": BASE}]
    if version == "0.28.4":
        dynamic = [config for config in configs if kind_of(config.get("rope_scaling") or {}) == "dynamic"]
        for config in dynamic:
            with pytest.raises(
                InvalidArgument, match=r"^mlx-lm 0\.28\.4 does not run '\w+': it has no rope_type 'dynamic'"
            ):
                mlx.read(config, version)
        configs = [config for config in configs if config not in dynamic]
    tables = [mlx.read(config, version) for config in configs]
    cases = [
        {
            "given": {**MLX_SIZES, **config},
            "head_dim": 32 if "qk_rope_head_dim" in config else 16,
            "rotary_dim": 16,
            "positions": POSITIONS,
        }
        for config in configs
    ]
    answers = ask_mlx(cases, version)
    for config, table, answer in zip(configs, tables, answers, strict=True):
        if (config.get("rope_scaling") or {}).get("rope_type") != "dynamic":  # whose base follows every call
            same(table, answer["tables"], POSITIONS)
            same(table.short or table, answer["tables"], POSITIONS)
        assert answer["scores"] == pytest.approx(only(table).softmax_factor), config


UNSCALED = {
    "model_type": "",
    "head_dim": 16,
    "rope_theta": 5e5,
    "rope_scaling": {"type": "linear", "factor": 4.0},
    "partial_rotary_factor": 0.5,
    "query_pre_attn_scalar": 64,
    "tie_word_embeddings": True,
    **dict.fromkeys(("attention_bias", "norm_topk_prob"), False),
    **dict.fromkeys(("norm_epsilon", "layer_norm_eps"), 1e-6),
    **dict.fromkeys(("num_experts", "num_local_experts", "num_experts_per_tok", "decoder_sparse_step"), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 64),
    "mlp_only_layers": [],
}
"""Keys of which each family takes its own; the scaling is one that none of these model files applies."""


@pytest.mark.programs
@pytest.mark.skipif(
    not (PROGRAMS / "mlx-lm-0.32.2").exists(), reason="no mlx-lm here; type: python tools/programs.py"
)
@pytest.mark.parametrize("version", mlx.PROGRAM.releases.versions)
def test_mlx_scales_nothing_in_files_that_only_call_its_rope(version: str) -> None:
    """Their own layers, built from a config with a scaling, rotate by the base alone, and scale scores as read."""
    sys.path.insert(0, str(ROOT))
    from tools import program_defaults  # type: ignore[import-not-found]

    wanted, cases = [], []
    for name in program_defaults.UNSCALED:
        shared = {**PLAIN, **UNSCALED, "model_type": name}
        kept = {"partial_rotary_factor": name == "glm4", "rope_scaling": name != "qwen2_moe"}
        config = {key: value for key, value in shared.items() if kept.get(key, True)}
        layer = next(one for one in mlx.read(config, version).layers.values() if one.frequencies)
        wanted.append((mlx.read(config, version), layer))
        sizes = {"head_dim": layer.head_dim, "rotary_dim": layer.rotary_dim, "half": layer.pairing == "half"}
        cases.append({"given": {**MLX_SIZES, **config}, "positions": POSITIONS, **sizes})
    for case, (table, layer), answer in zip(cases, wanted, ask_mlx(cases, version), strict=True):
        same(replace(table, layers={"all": layer}), answer["tables"], POSITIONS)
        assert answer["scores"] == pytest.approx(layer.softmax_factor), case
        assert ("rope_scaling is not read by" in "".join(table.notes)) == ("rope_scaling" in case["given"])


GEMMA = {**PLAIN, "model_type": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 64, "sliding_window": 8}
OF_GEMMA = {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "num_key_value_heads": 4}


@pytest.mark.programs
@pytest.mark.skipif(
    not (PROGRAMS / "mlx-lm-0.32.2").exists(), reason="no mlx-lm here; type: python tools/programs.py"
)
@pytest.mark.parametrize("version", mlx.PROGRAM.releases.versions)
@pytest.mark.parametrize("pattern", [1, 2])
def test_mlx_computes_what_is_read_of_gemma_3(version: str, pattern: int) -> None:
    """The first layer, which is near with a window pattern of 2 and full with one of 1."""
    own = {"rope_local_base_freq": 2e4, **({"rope_global_base_freq": 3e5} if version == "0.28.4" else {})}
    for bases in ({}, own):
        config = {**GEMMA, **OF_GEMMA, **bases, "sliding_window_pattern": pattern}
        table = mlx.read(config, version)
        layer = table.layers[table.layer_types[0]]
        case = {"given": config, "positions": POSITIONS, "head_dim": 16, "rotary_dim": 16}
        (answer,) = ask_mlx([case], version)
        same(replace(table, layers={"all": layer}), answer["tables"], POSITIONS)
        assert answer["scores"] == pytest.approx(layer.softmax_factor)


def test_mlx_0_28_reads_another_base_of_gemma_3() -> None:
    for bases, base in (({}, 1e6), ({"rope_global_base_freq": 3e5}, 3e5)):
        table = mlx.read({**GEMMA, **OF_GEMMA, **bases, "sliding_window_pattern": 2}, "0.28.4")
        assert [table.layers[name].base for name in table.layer_types] == [1e4, base]
        assert {layer.scaling for layer in table.layers.values()} == {"default()"}
        assert [table.layers[name].window for name in table.layer_types] == [8, None]
        assert any("reads rope_global_base_freq instead of rope_theta" in note for note in table.notes)


@pytest.mark.parametrize(
    ("program", "config"),
    [(vllm, BY_A_CLASS_OF_ITS_OWN[0]), *((sglang, config) for config in BY_A_CLASS_OF_ITS_OWN)],
    ids=["vllm llama3", "sglang llama3", "sglang linear"],
)
def test_servers_run_every_scaling_of_deepseek_as_a_yarn(program: Any, config: Any) -> None:
    assert by_name(program.read(config), config)[:2] == ["frequencies", "attention_factor"]
    assert str(only(program.read(config)).scaling).startswith("yarn(factor=4, original_length=64")


@pytest.mark.parametrize("program", [vllm, sglang])
@pytest.mark.parametrize("entry", [LLAMA3, {"rope_type": "linear", "factor": 4.0}], ids=["llama3", "linear"])
def test_servers_rotate_scaled_sections_by_one_axis(program: Any, entry: dict[str, Any]) -> None:
    """vLLM's get_rope, and SGLang's, look for sections without scaling and under YaRN alone."""
    heads = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2}
    given = {"model_type": "qwen2_vl_text", **heads, "max_position_embeddings": LENGTH}
    config = {**given, "rope_parameters": {"rope_theta": BASE, "mrope_section": [16, 24, 24], **entry}}
    assert "axes" in by_name(program.read(config), config)
    assert only(program.read(config)).sections == (64,)


@pytest.mark.parametrize("program", [vllm, sglang])
@pytest.mark.parametrize("stated", [{}, {"mrope_interleaved": False}, {"mrope_interleaved": True}], ids=str)
def test_servers_interleave_sections_only_if_the_rope_dictionary_says_so(program: Any, stated: Any) -> None:
    """transformers does not read mrope_interleaved: Qwen 3.5's sections are interleaved, Qwen2-VL's are not."""
    heads = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "head_dim": 64}
    given = {"model_type": "qwen3_5_text", **heads, "max_position_embeddings": LENGTH}
    entry = {"rope_theta": BASE, "mrope_section": [12, 10, 10], "partial_rotary_factor": 1.0, **stated}
    config = {**given, "layer_types": ["full_attention"] * 2, "rope_parameters": entry}
    assert by_name(program.read(config), config) == ["axes"] * (not stated.get("mrope_interleaved"))
    ignored = "transformers ignores mrope_interleaved=False"
    assert (ignored in read(config).assumed) == (stated.get("mrope_interleaved") is False)
    assert program.write(read(config))["rope_parameters"]["mrope_interleaved"]


def test_vllm_multiplies_the_length_by_a_factor_of_one_layer_type_too() -> None:
    kinds = ("sliding_attention", "full_attention")
    types = {"layer_types": [*kinds], "num_hidden_layers": 2, "sliding_window": 8}
    linear = {kinds[0]: {"rope_theta": BASE}, kinds[1]: {"rope_theta": BASE, "rope_type": "linear", "factor": 4.0}}
    config = {**PLAIN, **types, "model_type": "olmo3", "rope_parameters": linear}
    for version in VLLM:
        assert vllm.read(config, version).admitted_length == 4 * LENGTH


def by_name(table: PositionTable, config: Any) -> list[str]:
    return [difference.what for difference in differences(of(read(config)), table)]


@pytest.mark.parametrize(
    "program", [transformers, vllm, sglang, mlx, exllamav3], ids=lambda one: one.__name__.split(".")[-1]
)
@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_what_is_written_for_a_program_is_what_it_computes(program: Any, scaling: Any) -> None:
    """``write`` and ``read`` of a program agree with the model: of overrides laid over its config."""
    positions = read(PLAIN)
    try:
        keys = program.write(positions, scaling, max_length=4 * LENGTH)
    except InvalidArgument:
        return
    for version in program.PROGRAM.releases.versions:
        if program is transformers:
            keys = program.write(positions, scaling, max_length=4 * LENGTH, version=version)
            if (version[0] == "4" and isinstance(scaling, LongRoPE)) or "longrope" in str(keys):
                continue  # whose original length version 4 does not read beside its lists
        wanted = of(positions.with_scaling(scaling), length=4 * LENGTH)
        table = program.read({**PLAIN, **keys}, version)
        served = {"frequencies", "attention_factor", "softmax_factor", "pairing"}
        if not isinstance(scaling, LongRoPE):  # of which vLLM takes the short list for the length that it admits
            assert not served & {d.what for d in differences(wanted, table)}, keys


@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_fields_of_a_gguf_file_are_read_back(scaling: Any) -> None:
    positions = read(PLAIN)
    file = llama_cpp.write(positions, scaling, max_length=4 * LENGTH)
    model = {"general.architecture": "llama", "llama.embedding_length": 64, "llama.attention.head_count": 4}
    file = llama_cpp.Fields({**model, "llama.block_count": 2, **file.values}, file.tensors)
    wanted = of(positions.with_scaling(scaling), length=4 * LENGTH)
    assert not {"frequencies", "attention_factor", "pairing"} & {
        d.what for d in differences(wanted, llama_cpp.read(file))
    }


@pytest.mark.parametrize("model_type", ["gemma3_text", "modernbert-decoder"])
def test_a_base_of_sliding_layers_in_rope_parameters_is_not_assumed(model_type: str) -> None:
    bases = {f"{name}_attention": {"rope_type": "default", "rope_theta": 5e5} for name in ("full", "sliding")}
    given = {"model_type": model_type, "layer_types": [*bases], "rope_parameters": bases, "sliding_window": 8}
    assert "5.23.0, which finds" not in "".join(transformers.read({**PLAIN, **given}).notes)


def test_transformers_4_does_not_know_rope_parameters() -> None:
    config = rope(**YARN)
    config["rope_parameters"]["rope_theta"] = 5e5
    table = transformers.read(config, "4.57.6")
    assert by_name(table, config) == ["frequencies", "attention_factor", "pretrained_length"]
    assert only(table).base == 10_000
    assert table.notes == (
        "rope_parameters is not read by transformers 4.57.6",
        "rope_theta = 10000, the default of transformers 4.57.6, which finds no value in the config",
    )
    assert by_name(transformers.read(config, "5.23.0"), config) == []
    older = config_json(read(config), spelling="v4")
    assert by_name(transformers.read(older, "4.57.6"), older) == []


def test_transformers_4_has_no_proportional_scaling() -> None:
    """``ROPE_INIT_FUNCTIONS`` of 4.57.6 has no such type, so a model fails with a KeyError."""
    model = read(rope(rope_type="default"))
    with pytest.raises(
        InvalidArgument, match=r"^transformers 4\.57\.6 does not run '\w+': it has no rope_type 'proportional'"
    ):
        transformers.write(model, Proportional(0.25), version="4.57.6")
    assert transformers.write(model, Proportional(0.25), version="5.23.0")


PHI3 = {**PLAIN, "model_type": "phi3", "pad_token_id": 0, ORIGINAL: LENGTH, "max_position_embeddings": 4 * LENGTH}
LISTS = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}


@pytest.mark.parametrize("more", [{"type": "longrope", ORIGINAL: LENGTH}, {"rope_type": "longrope"}], ids=str)
def test_transformers_4_allows_three_keys_of_phi_3(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="does not run 'phi3': its class allows only type, short_factor and"):
        transformers.read({**PHI3, "rope_scaling": {**LISTS, **more}}, "4.57.6")
    table = transformers.read({**PHI3, "rope_scaling": {**LISTS, "type": "longrope"}}, "4.57.6")
    assert only(table).attention_factor == pytest.approx(math.sqrt(1 + math.log(4, LENGTH)))


def test_transformers_4_needs_a_factor_of_longrope_without_a_length_outside() -> None:
    inside = {"rope_type": "longrope", **LISTS, ORIGINAL: LENGTH}
    with pytest.raises(InvalidArgument, match="LongRoPE needs original_max_position_embeddings next to rope_scal"):
        transformers.read({**OLDER, "rope_scaling": inside}, "4.57.6")
    for more in ({"factor": 4.0}, {"attention_factor": 1.5}):
        assert transformers.read({**OLDER, "rope_scaling": {**inside, **more}}, "4.57.6").layers
    assert only(transformers.read({**OLDER, "rope_parameters": inside}, "4.57.6")).scaling == "default()"
    # not the default of Phi-3's class, 4096
    assert exllamav3.read({**PHI3, "rope_parameters": {"rope_theta": 1e4, **inside}}).pretrained_length == LENGTH


@pytest.mark.parametrize(
    ("program", "version", "refused"),
    [(vllm, "0.29.0", True), (vllm, "0.33.0", False), (sglang, "0.5.15", True), (sglang, "0.5.23", True)],
    ids=str,
)
def test_a_ramp_that_a_program_multiplies_is_refused(program: Any, version: str, refused: bool) -> None:
    config = rope(**YARN, extrapolation_factor=0.5)
    assert program.read(rope(**YARN, extrapolation_factor=1), version).layers
    if refused:
        with pytest.raises(InvalidArgument, match=r"extrapolation_factor=0\.5 multiplies YaRN's ramp"):
            program.read(config, version)
    else:
        assert program.read(config, version).layers == program.read(rope(**YARN), version).layers


def test_mlx_reads_rope_parameters_in_some_models_alone() -> None:
    config = rope(**YARN)
    assert "frequencies" in by_name(mlx.read(config), config)
    qwen = {**config, "model_type": "qwen3"}
    assert by_name(mlx.read(qwen), qwen) == []
    with pytest.raises(InvalidArgument, match=r"^mlx-lm 0\.28\.4 cannot run this config: .* add 'rope_theta'"):
        mlx.read(qwen, "0.28.4")
    assert "frequencies" in by_name(mlx.read({**qwen, "rope_theta": BASE}, "0.28.4"), qwen)


ONE, SQUARED = rope(**YARN, attention_factor=1.0), rope(**YARN, mscale=1.0, mscale_all_dim=1.0)


@pytest.mark.parametrize(
    ("program", "config", "factors"),
    [
        (vllm, ONE, (SHARPER, 1)),
        (vllm, SQUARED, (SHARPER, 1)),
        (vllm, rope(**YARN, attn_factor=1.2), (1.2 * SHARPER, SHARPER)),
        (sglang, ONE, (SHARPER, SHARPER)),
        (sglang, rope(**YARN, attn_factor=0.5), (0.5 * SHARPER, 0.5 * SHARPER)),
        (llama_cpp, ONE, (SHARPER, SHARPER)),
        (transformers, ONE, (1, 1)),
    ],
)
def test_the_attention_factor_by_version(program: Any, config: Any, factors: tuple[float, float]) -> None:
    found = tuple(
        only(program.read(config, version)).attention_factor for version in program.PROGRAM.releases.versions
    )
    assert found == pytest.approx(factors)


def test_lengths_that_are_let_in() -> None:
    linear = rope(rope_type="linear", factor=4.0)
    assert vllm.read(linear).admitted_length == sglang.read(linear).admitted_length == 16 * LENGTH
    assert vllm.read({**PLAIN, "rope_parameters": {**PROPORTIONAL, "factor": 4.0}}).admitted_length == 4 * LENGTH
    assert transformers.read(linear).admitted_length == 4 * LENGTH
    assert [
        vllm.read({**rope(**YARN), "max_position_embeddings": LENGTH}, version).admitted_length for version in VLLM
    ] == [4 * LENGTH, LENGTH]
    phi = CONFIGS / "phi-3-mini-128k.json"
    assert (of(read(phi)).admitted_length, vllm.read(phi).admitted_length) == (131072, 4096)


@pytest.mark.parametrize(
    ("program", "fields", "uses"),
    [
        (transformers, [], ""),
        (sglang, [], "for every request of a batch if one of them is longer"),
        (vllm, ["admitted_length"], "for every request if --max-model-len exceeds the original length"),
        (mlx, ["frequencies"], "for every request"),
        (exllamav3, ["frequencies"], "for every request"),
    ],
    ids=["transformers", "sglang", "vllm", "mlx", "exllamav3"],
)
def test_lists_of_factors_are_compared_for_short_requests_too(program: Any, fields: list[str], uses: str) -> None:
    """transformers uses the short list up to the original length, and the others at different lengths."""
    config = {**PLAIN, "max_position_embeddings": 4 * LENGTH, "rope_scaling": LONG, ORIGINAL: LENGTH}
    table = program.read(config)
    found = differences(of(read(config)), table, [1, LENGTH - 1, LENGTH, 3 * LENGTH])
    assert [one.what for one in found] == fields
    assert [[error.position for error in one.errors] for one in found if one.errors] == [[1, 63]] * (
        fields == ["frequencies"]
    )
    assert [note for note in table.notes if "the long list of factors" in note and uses in note] or not uses
    both = {**config, "rope_scaling": {**LONG, "short_factor": LONG["long_factor"]}}
    assert "frequencies" not in by_name(program.read(both), both)
    assert not any("long list" in note for note in program.read(both).notes)


def test_short_requests_are_compared_by_what_each_program_does_with_them() -> None:
    """vLLM without the original length outside the dictionary admits all, and then uses the long list for all."""
    config = {**PLAIN, "max_position_embeddings": 4 * LENGTH, "rope_scaling": LONG}
    (found,) = differences(of(read(config)), vllm.read(config), [0, 63, 64])
    assert (found.what, [error.position for error in found.errors]) == ("frequencies", [0, 63])
    assert differences(vllm.read(config), vllm.read(config)) == []
    other = {**config, "rope_scaling": {**LONG, "long_factor": [3.0] * 8}}
    (only_long,) = differences(of(read(config)), of(read(other)), [0, 63, 64])
    assert [error.position for error in only_long.errors] == [0, 63, 64]


QWEN = {"use_sliding_window": True, "max_window_layers": 0}


@pytest.mark.parametrize(
    ("program", "model_type", "applied"),
    [
        (mlx, "mistral", "none"),
        *((program, name, "none") for program in (mlx, exllamav3) for name in ("phi3", "qwen3")),
        (mlx, "qwen2", "none"),
        (mlx, "olmo3", "not asked"),
        (mlx, "gpt_oss", "not asked"),
        (llama_cpp, "mistral", "not asked"),
        (sglang, "mistral", "none"),
        (vllm, "mistral", "applied"),
    ],
)
def test_a_window_is_applied_or_denied_or_not_asked(program: Any, model_type: str, applied: str) -> None:
    qwen = QWEN if model_type.startswith("qwen") else {}
    config = {**PLAIN, "head_dim": 16, "sliding_window": 8, **qwen, "model_type": model_type}
    table = program.read(config)
    found = [one for one in differences(of(read(config)), table) if one.what == "window"]
    assert bool(found) == (applied == "none")
    assert not found or "applies no window to these layers" in "".join(table.notes)
    assert ("windows" in table.not_asked) == (applied == "not asked")
    wider = program.read({**config, "sliding_window": LENGTH})
    assert "no window" not in "".join(wider.notes) or model_type == "mistral"
    assert not wider.not_asked


def test_every_window_of_a_program_whose_model_files_were_not_run_is_denied_or_not_asked() -> None:
    """By every published config, so that no answer says that windows are equal."""
    published = (CONFIGS.parent / "published_configs.jsonl").read_text("utf-8").splitlines()
    configs = [json.loads(line)["config"] for line in published]
    found = set()
    for program in (mlx, exllamav3, llama_cpp):
        for config, version in product(configs, program.PROGRAM.releases.versions):
            try:
                table, wanted = program.read(config, version), of(read(config))
            except PosencError:
                continue
            if has_windows(wanted):
                found.add((config["model_type"], bool(table.not_asked)))
                assert table.not_asked or not has_windows(table), (config["model_type"], version)
    assert found >= {("gpt_oss", True), ("mistral", False), ("mistral", True)}


GGUF = {
    "general.architecture": "llama",
    "llama.context_length": LENGTH,
    "llama.block_count": 2,
    "llama.attention.key_length": 16,
}
OLDER = {**BARE, "max_position_embeddings": 4 * LENGTH, "rope_theta": BASE}
KINDS = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": LENGTH, "head_dim": 16}
BY_TYPE = {key: {"rope_type": "linear", "rope_theta": BASE, "factor": 4.0} for key in KINDS["layer_types"]}
SCALED = {"frequencies", "attention_factor"}
PROPORTIONAL = {"rope_theta": BASE, "rope_type": "proportional", "partial_rotary_factor": 0.5}
LLAMA3_INSIDE = {**LLAMA3, "factor": 8.0}
HABITS: dict[str, tuple[Any, Any, set[str]]] = {
    **{
        f"mlx scales no ernie4_5{x}": (
            mlx,
            {**OLDER, "model_type": f"ernie4_5{x}", "rope_scaling": YARN},
            SCALED,
        )
        for x in ("", "_moe")
    },
    "mlx scales gpt_oss by default": (mlx, {**OLDER, "model_type": "gpt_oss", **KINDS}, SCALED),
    "mlx rounds the ramp of gpt_oss": (mlx, CONFIGS / "gpt-oss-20b.json", {"frequencies"}),
    "mlx scales no exaone_moe": (
        mlx,
        {**BARE, "model_type": "exaone_moe", **KINDS, "rope_parameters": YARN},
        SCALED,
    ),
    "mlx scales mellum by one type": (
        mlx,
        {**BARE, "model_type": "mellum", **KINDS, "rope_parameters": BY_TYPE},
        {"frequencies"},
    ),
    "exllamav3 takes the length outside": (exllamav3, {**rope(**LLAMA3), ORIGINAL: 2 * LENGTH}, {"frequencies"}),
    "exllamav3 rotates all channels": (exllamav3, rope(partial_rotary_factor=0.5), {"rotary_dim"}),
    "llama.cpp takes no length inside": (llama_cpp, rope(**LLAMA3_INSIDE), {"frequencies"}),
    "llama.cpp takes the length outside": (llama_cpp, CONFIGS / "llama-3.1-8b.json", set()),
    "llama.cpp rounds a ramp": (llama_cpp, rope(**YARN, truncate=False), {"frequencies"}),
    "vllm rotates a proportional share": (vllm, {**PLAIN, "rope_parameters": PROPORTIONAL}, set()),
    "vllm does not divide it": (
        vllm,
        {**PLAIN, "rope_parameters": {**PROPORTIONAL, "factor": 4.0}},
        {"frequencies", "admitted_length"},
    ),
    "sglang rotates all channels": (sglang, {**PLAIN, "rope_parameters": PROPORTIONAL}, {"frequencies"}),
    "sglang has one base for all lengths": (
        sglang,
        {**PLAIN, "rope_parameters": {"rope_theta": BASE, "rope_type": "dynamic", "factor": 2.0}},
        {"frequencies", "admitted_length"},
    ),
    "llama.cpp takes dynamic for none, in either spelling": (
        llama_cpp,
        {**PLAIN, "rope_parameters": {"rope_theta": BASE, "type": "dynamic", "factor": 2.0}},
        {"frequencies"},
    ),
}
"""Configs that a program reads by a habit of its own or as the class does, and the fields that differ."""


@pytest.mark.parametrize(("program", "config", "fields"), HABITS.values(), ids=HABITS)
def test_habits_of_programs(program: Any, config: Any, fields: set[str]) -> None:
    assert set(by_name(program.read(config), config)) - {"pretrained_length", "tuned_length"} == fields


@pytest.mark.parametrize(
    ("program", "config", "version", "message"),
    [
        (vllm, PLAIN, "0.31.0", r"unknown version .*0\.31\.0"),
        (mlx, CONFIGS / "smollm3-3b.json", "0.32.2", r"model_type 'smollm3' was not checked in mlx-lm 0\.32\.2"),
        (transformers, CONFIGS / "gpt2.json", "4.57.6", r"transformers 4\.57\.6 has no rotary model_type 'gpt2'"),
        (
            mlx,
            {**OLDER, "model_type": "internlm3", "rope_scaling": YARN},
            "",
            "set 'rope_type' to linear or dynamic",
        ),
        (mlx, {**OLDER, "model_type": "minicpm3", "rope_scaling": YARN}, "", "set 'rope_type' to longrope"),
        (mlx, {**OLDER, "model_type": "minicpm3"}, "", "its model file reads rope_scaling, which has no default"),
        (
            mlx,
            {**OLDER, "model_type": "qwen2_moe", "rope_scaling": YARN},
            "",
            "allows only linear scaling",
        ),
        (
            mlx,
            {**OLDER, "model_type": "ministral3", "rope_theta": 1e6},
            "",
            "its model file reads rope_parameters, which has no default",
        ),
        (  # ``get_rope`` reads ``original_max_position_embeddings``, which transformers does not fill in
            vllm,
            BY_A_CLASS_OF_ITS_OWN[1],
            "",
            "rope_type 'linear' of a DeepSeek model as YaRN, and fails without",
        ),
        (
            mlx,
            {
                **OLDER,
                "model_type": "ministral3",
                "rope_parameters": {**INSIDE, ORIGINAL: 64, "llama_4_scaling_beta": 1},
            },
            "",
            "reads rope_theta in rope_parameters, which has no default; add rope_theta there",
        ),
        *(
            (transformers, {**OLDER, "model_type": name, "rope_scaling": {**YARN, **more}}, version, "add head_dim")
            for name, version, more in (
                ("mixtral", "4.57.6", {}),
                ("mixtral", "5.23.0", {"rope_type": "dynamic", ORIGINAL: None}),
                ("minimax", "5.23.0", {}),
                ("mistral", "4.57.6", {}),
                ("ministral", "5.23.0", {}),
                ("hunyuan_v1_dense", "4.57.6", {}),
            )
        ),
        (
            mlx,
            {**OLDER, "rope_scaling": {**LISTS, "rope_type": "longrope"}, ORIGINAL: LENGTH},
            "",
            f"{ORIGINAL} is not read by mlx-lm .* outside the rope dictionary",
        ),
        *(
            (
                program,
                {**rope(**YARN, **{key: None}), "rope_scaling": None}
                if program is not mlx
                else {**OLDER, "rope_scaling": {**YARN, key: None}},
                "",
                f"{key}.*is null; remove the null",
            )
            for program, key in (
                (vllm, "beta_fast"),
                (sglang, "attn_factor"),
                (sglang, "extrapolation_factor"),
                (mlx, "beta_slow"),
                (mlx, "mscale"),
                (exllamav3, "beta_fast"),
            )
        ),
        *(
            (program, {**DEEPSEEK, "rope_parameters": {**YARN, "mscale": None}}, "", "mscale_all_dim is null")
            for program in (vllm, sglang)
        ),
        (
            mlx,
            {**OLDER, "model_type": "gpt_oss", "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
            "",
            "passes no length to this scaling",
        ),
        (vllm, rope(**{**YARN, "factor": "4.0"}), "", "factor='4.0' must be a number"),
        (mlx, {**OLDER, "rope_scaling": {**INSIDE, ORIGINAL: 64, "factor": None}}, "", "required keys.*factor"),
        (llama_cpp, CONFIGS / "phi-3-mini-128k.json", "", "the conversion of model_type 'phi3' was not checked"),
        (llama_cpp, rope(**LONG), "", "writes no lists of factors for 'llama'"),
        (exllamav3, rope(rope_type="dynamic", factor=4.0), "", "has no rope_type 'dynamic'"),
        (exllamav3, {**PLAIN, "model_type": "gemma"}, "", "model_type 'gemma' was not checked"),
        (
            llama_cpp,
            llama_cpp.Fields({"general.architecture": "gemma3", "gemma3.attention.sliding_window": 1024}),
            "",
            r"architecture 'gemma3' has fields that posenc does not support: .*attention\.sliding_window",
        ),
        *(
            (
                llama_cpp,
                llama_cpp.Fields({"general.architecture": "mistral3", f"mistral3.{name}": value}),
                "",
                f"architecture 'mistral3' has fields that posenc does not support: {name}",
            )
            for name, value in (
                ("rope.scaling.yarn_beta_fast", 4.0),
                ("rope.scaling.yarn_ext_factor", 0.0),
                ("attention.temperature_scale", 0.1),
            )
        ),
        (
            llama_cpp,
            llama_cpp.Fields({"general.architecture": "baichuan", "baichuan.block_count": 40}),
            "",
            "llama.cpp has no rotation for architecture 'baichuan' unless block_count is 32, so",
        ),
        (
            llama_cpp,
            llama_cpp.Fields({**GGUF, "llama.rope.scaling.type": "dynamic"}),
            "",
            r"unknown rope\.scaling\.type 'dynamic'",
        ),
        (
            llama_cpp,
            llama_cpp.Fields({"general.architecture": "gpt2"}),
            "",
            "llama.cpp has no rotation for architecture 'gpt2'",
        ),
        (vllm, {**PLAIN, "rope_scaling": "yarn"}, "", "rope_scaling='yarn' must be a dictionary; correct it"),
        (sglang, {**PLAIN, "rope_scaling": ["yarn"]}, "", r"rope_scaling=\['yarn'\] must be a dictionary"),
    ],
    ids=lambda value: value.__name__.split(".")[-1] if hasattr(value, "__name__") else "",
)
def test_nothing_is_known_of_other_versions_and_families(
    program: Any, config: Any, version: str, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        program.read(config, *filter(None, [version]))


@pytest.mark.programs
@pytest.mark.skipif(
    not (PROGRAMS / "mlx-lm-0.32.2").exists(), reason="no mlx-lm here; type: python tools/programs.py"
)
def test_defaults_that_are_kept_are_those_of_the_programs() -> None:
    answered = told("program_defaults")
    if installed("transformers") != transformers.PROGRAM.releases.chosen(None):  # may have others
        del answered["transformers5"]
    assert answered == {program: dict(defaults(program)) for program in answered}


SAME = {
    "chatglm": "glm",
    "command-r": "cohere",
    "deepseek": "deepseek_v3",
    "ernie4_5-moe": "ernie4_5_moe",
    "exaone-moe": "exaone_moe",
    "falcon-h1": "falcon_h1",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
    "gptneox": "gpt_neox",
    "hunyuan-dense": "hunyuan_v1_dense",
    "lfm2moe": "lfm2_moe",
    "llama4": "llama4_text",
    "minimax-m2": "minimax_m2",
    "modern-bert": "modernbert",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
}
"""Names of llama.cpp's and of transformers for one family."""


def test_pairs_of_llama_cpp_are_those_of_the_family() -> None:
    """By the rows of the checkpoint, which a converter sorts where llama.cpp rotates the other pairs."""
    known = llama_cpp.HALF | llama_cpp.INTERLEAVED
    families = {one: FAMILIES[SAME.get(one, one)] for one in sorted(known) if SAME.get(one, one) in FAMILIES}
    rotary = {one: family for one, family in families.items() if family.kind == "rotary" and one != "deepseek"}
    assert len(rotary) > 40
    assert [one for one, f in rotary.items() if (f.pairing == "half") != (one in llama_cpp.HALF)] == []
    assert not known & llama_cpp.STILL
    assert not llama_cpp.HALF & llama_cpp.INTERLEAVED


def test_neighbours_are_those_that_llama_cpp_rotates() -> None:
    """Whether a converter sorts their rows is not asked of its library."""
    assert llama_cpp.INTERLEAVED | {*llama_cpp.SORTED.split()} <= {*llama_cpp.ROPE_TYPES["neighbours"]}


@pytest.mark.programs
@pytest.mark.skipif(
    not (PROGRAMS / "xllamacpp-2026.10.11549").exists(),
    reason="no llama.cpp here; type: python tools/programs.py",
)
@pytest.mark.parametrize("version", llama_cpp.PROGRAM.releases.versions)
def test_llama_cpp_answers_the_rope_types_that_are_kept(version: str) -> None:
    """The same in both releases."""
    assert told("rope_types", version) == llama_cpp.ROPE_TYPES


def gguf_file(tmp_path: Path, architecture: str, **more: Any) -> str:
    """A file without weights, as a converter writes its fields."""
    writer = pytest.importorskip("gguf").GGUFWriter(tmp_path / f"{architecture}.gguf", architecture)
    stated = {"context_length": 2048, "embedding_length": 1280, "block_count": 2, "head_count": 20, **more}
    for name, value in stated.items():
        if value is not None:
            getattr(writer, f"add_{name}")(value)
    writer.add_rope_dimension_count(64)
    writer.add_tensor("token_embd.weight", torch.zeros(4, 4).numpy())
    finish(writer)
    return str(tmp_path / f"{architecture}.gguf")


def test_the_older_name_of_a_factor_is_read() -> None:
    older, newer = (
        llama_cpp.Fields({**GGUF, f"llama.rope.{key}": 4.0}) for key in ("scale_linear", "scaling.factor")
    )
    assert llama_cpp.read(older) == llama_cpp.read(newer)
    assert only(llama_cpp.read(older)).scaling == "linear(factor=4)"


def test_glm_4_has_no_difference_to_its_file(tmp_path: Path) -> None:
    config = {
        "model_type": "glm4",
        "hidden_size": 1280,
        "num_attention_heads": 20,
        "num_hidden_layers": 2,
        "head_dim": 64,
        "partial_rotary_factor": 1.0,
        "rope_theta": 1e4,
        "max_position_embeddings": 2048,
    }
    table = llama_cpp.read(gguf_file(tmp_path, "glm4", rope_freq_base=1e4))
    assert [str(one) for one in differences(of(read(config)), table)] == []


def test_an_architecture_that_nobody_looked_at_has_unknown_pairs(tmp_path: Path) -> None:
    table = llama_cpp.read(gguf_file(tmp_path, "llama-embed"))
    assert table.layers["all"].pairing is None
    assert "the pairs of architecture 'llama-embed' were not checked in llama.cpp" in table.notes[0]
    for pairing in ("half", "interleaved"):
        other = replace(table, layers={"all": replace(table.layers["all"], pairing=pairing)})
        assert differences(table, other) == differences(other, table) == []


@pytest.mark.parametrize("architecture", ["openelm", "deci"])
def test_heads_counted_by_layer(architecture: str, tmp_path: Path) -> None:
    """The channels of a head do not depend on how many there are."""
    heads = {"head_count": [12, 20], "head_count_kv": [3, 4]}
    table = llama_cpp.read(gguf_file(tmp_path, architecture, **heads, key_length=64))
    assert (table.layers["all"].head_dim, table.layers["all"].rotary_dim) == (64, 64)
    with pytest.raises(
        InvalidArgument, match=r"file has no value, or a list of values, for .*attention.head_count"
    ):
        llama_cpp.read(gguf_file(tmp_path, architecture, **heads))


@pytest.mark.parametrize("name", ["context_length", "embedding_length", "block_count", "head_count"])
def test_a_field_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"'llama' file has no value, or a list of values, for .*{name}"):
        llama_cpp.read(gguf_file(tmp_path, "llama", **{name: None}))


OLMO3 = {**OLDER, **KINDS, "model_type": "olmo3", "rope_theta": 1e6}
OF_OLMO3 = {name: {"rope_type": "default", "rope_theta": 1e6} for name in KINDS["layer_types"]}
PHIMOE_LISTS = {"type": "longrope", **LISTS, "short_mscale": 1.25, "long_mscale": 1.25, ORIGINAL: LENGTH}
PHIMOE = {"model_type": "phimoe", "rope_scaling": PHIMOE_LISTS}
OUTSIDE = {**PLAIN, "max_position_embeddings": 4 * LENGTH, "rope_theta": BASE, ORIGINAL: LENGTH}
ONE_BASE = [
    (transformers, "4.57.6"),
    (sglang, "0.5.23"),
    *((mlx, version) for version in mlx.PROGRAM.releases.versions),
]
UNSTATED = {"rope_type": "llama3", "factor": 4.0}
READ = [
    *(
        (*one, {**PLAIN, "rope_theta": base, "rope_scaling": BASE_INSIDE}, {"base": base or 1e4})
        for one in ONE_BASE
        for base in (None, 5e5)
        if one[0] is not sglang
    ),
    (vllm, "0.33.0", {**PLAIN, "rope_scaling": BASE_INSIDE}, {"base": 3}),
    (mlx, "0.32.2", {**PLAIN, "model_type": "qwen3", "rope_parameters": BASE_INSIDE}, {"base": 1e4}),
    *(
        (transformers, "4.57.6", {**BARE, "model_type": name, "rope_scaling": None}, {"scaling": "default()"})
        for name in ("apertus", "gpt_oss")
    ),
    (
        transformers,
        "4.57.6",
        {**BARE, "model_type": "gpt_oss"},
        {"scaling": "yarn(factor=32, original_length=4096, truncate=False)"},
    ),
    (
        transformers,
        "4.57.6",
        {**OUTSIDE, "rope_scaling": {**INSIDE, ORIGINAL: 2 * LENGTH}},
        {"scaling": f"yarn(factor=4, original_length={2 * LENGTH})"},
    ),
    (
        transformers,
        "4.57.6",
        {**OUTSIDE, "rope_scaling": INSIDE},
        {"scaling": f"yarn(factor=4, original_length={4 * LENGTH})"},
    ),
    *(
        (*one, {**OLMO3, "rope_scaling": {**YARN, "rope_theta": 3}}, {"base": 3 if one[0] is sglang else 1e6})
        for one in ONE_BASE
    ),
    (sglang, "0.5.23", {**OLMO3, "rope_theta": None, "rope_scaling": {**YARN, "rope_theta": 3}}, {"base": 3}),
    (sglang, "0.5.23", {**BARE, **KINDS, "model_type": "olmo3", "rope_parameters": OF_OLMO3}, {"base": 1e4}),
    *((*one, OLMO3, {"base": 1e6, "scaling": "default()"}) for one in ONE_BASE),
    (transformers, "4.57.6", {**BARE, **KINDS, "model_type": "olmo3", "rope_parameters": OF_OLMO3}, {"base": 1e4}),
    (exllamav3, "1.6.5", {**OLDER, "model_type": "apertus"}, {"scaling": "default()"}),
    (exllamav3, "1.6.5", {**OLDER, "rope_scaling": UNSTATED}, {"scaling": "llama3(factor=4)"}),
    (exllamav3, "1.6.5", {**OLDER, "model_type": "apertus", "rope_scaling": None}, {"scaling": "default()"}),
    *(
        (
            exllamav3,
            "1.6.5",
            {**stated, "model_type": "apertus"},
            {"scaling": "llama3(factor=4, original_length=64)"},
        )
        for stated in ({**OLDER, "rope_scaling": LLAMA3}, rope(**LLAMA3))
    ),
    *(
        (mlx, version, {**OLDER, **PHIMOE, ORIGINAL: LENGTH}, {"attention_factor": 1.25})
        for version in mlx.PROGRAM.releases.versions
    ),
]
"""A program and its release, a config, and what it makes of every layer."""


@pytest.mark.parametrize(("program", "version", "config", "made"), READ)
def test_what_a_program_makes_of_every_layer(program: Any, version: str, config: Any, made: dict[str, Any]) -> None:
    for layer in program.read(config, version).layers.values():
        assert {name: getattr(layer, name) for name in made} == made


@pytest.mark.parametrize(("program", "version"), ONE_BASE)
def test_only_full_layers_of_olmo_3_are_scaled(program: Any, version: str) -> None:
    layers = program.read({**OLMO3, "rope_scaling": YARN}, version).layers
    assert layers["sliding_attention"].scaling == "default()"
    assert str(layers["full_attention"].scaling).startswith("yarn(factor=4")


@pytest.mark.parametrize("program", [vllm, sglang])
def test_the_factor_of_phimoe_is_read_where_transformers_runs_it(program: Any) -> None:
    config = {**OLDER, **PHIMOE}
    for version in program.PROGRAM.releases.versions:
        table = program.read(config, version)
        assert by_name(table, config) == ["admitted_length"] * (program is vllm)
        assert table.admitted_length == (LENGTH if program is vllm else 4 * LENGTH)
        assert only(table).attention_factor == 1.25


@pytest.mark.parametrize(("program", "pairing"), [(vllm, "interleaved"), (sglang, "half")])
def test_lists_of_factors_are_read_for_interleaved_pairs_of_llama_4_alone(program: Any, pairing: str) -> None:
    """Both rotate half pairs, of rows that vLLM sorts on loading and SGLang does not."""
    llama = program.read({**rope(**LONG), "model_type": "llama4_text", "head_dim": 16})
    assert [layer.pairing for layer in llama.layers.values() if layer.frequencies] == [pairing]
    with pytest.raises(InvalidArgument, match="lists of factors only for half pairs"):
        program.read({**rope(**LONG), "model_type": "cohere"})
