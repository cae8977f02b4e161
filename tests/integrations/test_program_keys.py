"""Keys for vLLM, mlx-lm and llama.cpp: those that the programs were asked about, with the answers that they gave.

tests/data/programs.json holds both, by program and version; test_programs.py and test_llama_cpp.py ask anew.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.integrations import programs
from posenc.integrations.huggingface import read, write
from posenc.integrations.huggingface.model_positions import softmax_factor
from posenc.integrations.programs import laid_over
from posenc.integrations.programs.llama_cpp import write as gguf
from posenc.integrations.programs.mlx import write as mlx
from posenc.integrations.programs.sglang import write as sglang
from posenc.integrations.programs.vllm import write as vllm
from posenc.scaling import DynamicNTK, Linear, Llama3, LongRoPE, Proportional, YaRN
from support.files import finish
from support.served import (
    BASE,
    DEEPSEEK,
    DIM,
    LENGTH,
    LLAMA_CPP,
    MLX,
    PARTS,
    PLAIN,
    SCALINGS,
    SECOND,
    SIZES,
    SMOLLM_SCALINGS,
    VLLM,
    YARN,
    Case,
    by_mlx,
    fields_of,
    record_gguf,
    recorded,
)

LLAMA = read(PLAIN)
V3 = {**DEEPSEEK, "rope_parameters": SECOND}
SECTIONS = {"rope_type": "default", "rope_theta": BASE, "mrope_section": [16, 24, 24]}
QWEN2_VL = {"model_type": "qwen2_vl_text", **SIZES, "hidden_size": 512, "rope_parameters": SECTIONS}


@pytest.mark.parametrize("version", VLLM)
@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_vllm(scaling: Any, version: str) -> None:
    record, case = recorded()[f"vllm {version}"][str(scaling)], Case(PLAIN, scaling, 4 * LENGTH, (1,))
    assert vllm(LLAMA, scaling, max_length=4 * LENGTH) == record["given"]
    case.check([record["table"]])


@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_mlx(scaling: Any) -> None:
    if not by_mlx(scaling):
        with pytest.raises(
            InvalidArgument,
            match=r"would compute differently: all: (freq|cos and sin are multiplied by).*; use another scaling",
        ):
            mlx(LLAMA, scaling, max_length=4 * LENGTH)
        return
    record, case = recorded()[f"mlx-lm {MLX}"][str(scaling)], Case(PLAIN, scaling, 4 * LENGTH, (1,))
    assert case.mlx()["given"] == record["given"]
    case.check([record["table"]])


@pytest.mark.parametrize("scaling", SMOLLM_SCALINGS, ids=str)
def test_gguf(scaling: Any, tmp_path: Path) -> None:
    """The fields that llama.cpp was asked about, and GGUF's own reader finds them in a file, in float32."""
    record, fields = recorded()[LLAMA_CPP][str(scaling)], fields_of(scaling)
    assert record_gguf()[str(scaling)] == record
    package = pytest.importorskip("gguf")
    writer = package.GGUFWriter(tmp_path / "positions.gguf", "llama")
    fields.add_to(writer)
    finish(writer)
    file = package.GGUFReader(tmp_path / "positions.gguf")
    values = {name: entry.contents() for name, entry in file.fields.items() if name.startswith("llama.")}
    assert values == {
        k: pytest.approx(v, rel=2**-24) if isinstance(v, float) else v for k, v in fields.values.items()
    }
    tensors = {tensor.name: tensor.data.tolist() for tensor in file.tensors}
    assert tensors == {name: tensor.tolist() for name, tensor in fields.tensors.items()}


def test_gguf_keys_are_those_of_the_specification() -> None:
    keys = pytest.importorskip("gguf").Keys
    names = {v.format(arch="llama") for k, v in vars(keys.Rope).items() if isinstance(v, str) and "{arch}" in v}
    names |= {keys.LLM.CONTEXT_LENGTH.format(arch="llama"), "llama.rope.scaling.attn_factor"}
    assert {name for scaling in SCALINGS for name in gguf(LLAMA, scaling).values} <= names


def test_mlx_rotates_halves_by_lists_of_factors() -> None:
    """As its own layers do, whatever they are told of pairs: test_cells.py asks them."""
    lists = LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0)
    model = read({**DEEPSEEK, "rope_theta": BASE})
    with pytest.raises(InvalidArgument, match=r"^mlx-lm 0\.32\.2 would compute differently: all: pair"):
        mlx(model, lists)
    (layer,) = programs.mlx.read(write(model, lists, spelling="v4")).layers.values()
    assert (layer.pairing, model.rotary.get("pairing")) == ("half", "interleaved")


@pytest.mark.parametrize(
    "config",
    [{**PARTS}, {"model_type": "colqwen", "vlm_config": PARTS}, {"model_type": "x", "thinker_config": PARTS}],
    ids=["text", "retriever", "thinker"],
)
def test_keys_stand_under_the_part_that_was_read(config: dict[str, Any]) -> None:
    positions = read(config)
    outer = [key for key in ("vlm_config", "thinker_config") if key in config]
    assert positions.path == (*outer, "text_config")
    overrides = vllm(positions, Linear(2))
    for key in positions.path:
        assert list(overrides) == [key]
        overrides = overrides[key]
    assert overrides["max_position_embeddings"] == LENGTH
    rope = overrides["rope_parameters"]
    assert (rope["rope_type"], rope["factor"], rope["mscale"]) == ("linear", 2.0, None)  # laid over the part's own
    with pytest.raises(InvalidArgument, match=r"is in (\w+\.)?text_config, but mlx-lm needs a complete"):
        mlx(positions)
    assert mlx(read(config["text_config"] if not outer else PARTS["text_config"]))["rope_scaling"]["factor"] == 4.0


def test_a_part_is_equal_wherever_it_stands() -> None:
    assert read(PARTS) == read(PARTS["text_config"])
    assert read(PARTS["text_config"]).path == ()


@pytest.mark.parametrize("factor", [4, 1.3])
def test_vllm_itself_multiplies_the_length_of_linear_scaling(factor: float) -> None:
    overrides = vllm(LLAMA, Linear(factor))
    assert overrides["max_position_embeddings"] == LENGTH
    assert isinstance(overrides["rope_parameters"]["factor"], float)  # it fails at an int
    assert json.loads(json.dumps(overrides)) == overrides
    assert vllm(LLAMA, Linear(factor), max_length=2 * LENGTH)["max_position_embeddings"] == int(2 * LENGTH / factor)
    unchanged = read({**PLAIN, "rope_parameters": {"rope_type": "linear", "rope_theta": BASE, "factor": factor}})
    assert vllm(unchanged)["max_position_embeddings"] == LENGTH


def test_deepseek_has_its_factors_in_one_pair() -> None:
    """vLLM and mlx-lm multiply cos and sin by the pair's ratio and scores by the square of its second number's."""
    model = read(V3)
    for entry in (
        vllm(model, YaRN(2, LENGTH, attention_factor=1.5))["rope_parameters"],
        mlx(model, YaRN(2, LENGTH, attention_factor=1.5))["rope_scaling"],
    ):
        first, second = (
            1 + 0.1 * entry[key] * torch.tensor(2.0).log().item() for key in ("mscale", "mscale_all_dim")
        )
        assert first / second == pytest.approx(1.5)
        assert second**2 == pytest.approx(softmax_factor(model.rotary))
        assert not {"attention_factor", "attn_factor"} & set(entry)
        assert entry["rope_type"] == "yarn"


def test_lists_of_factors_have_their_own_attention_factor() -> None:
    """vLLM and mlx-lm take another from the lengths where it is left out and they are not factor times apart."""
    scaling = LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0)
    assert vllm(LLAMA, scaling, max_length=3 * LENGTH)["rope_parameters"]["long_mscale"] == pytest.approx(
        (4 / 3) ** 0.5
    )
    with pytest.raises(InvalidArgument, match=r"multiplied by 1\.1547"):
        mlx(LLAMA, scaling, max_length=3 * LENGTH)


SCALED = {**YARN, "llama_4_scaling_beta": 0.1}
PROGRAMS = (vllm, mlx, gguf)
GEMMA = {"model_type": "gemma3_text", "head_dim": DIM, "rope_theta": 1e6, **SIZES, "num_hidden_layers": 6}
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 64}
TOWER = {"model_type": "qwen2_vl_vision", "embed_dim": 64, "num_heads": 4, "depth": 2, "patch_size": 14}
GPTJ = {"model_type": "gptj", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 64, "rotary_dim": DIM}


@pytest.mark.parametrize(
    ("program", "config", "scaling", "message"),
    [
        *((program, PLAIN, DynamicNTK(2.0, LENGTH), r"use scaling.plan\(total_length\)") for program in PROGRAMS),
        *(
            (
                program,
                GEMMA,
                None,
                r"'gemma3_text' has these rotary layer types: \['full_attention', 'sliding_attention'\]",
            )
            for program in PROGRAMS
        ),
        *(
            (program, GPT2, None, "'gpt2' has no rotary layers|'gpt2' has these rotary layer types: none")
            for program in PROGRAMS
        ),
        *(
            (
                program,
                TOWER,
                None,
                r"'qwen2_vl_vision' has these rotary layer types: \['all'\]; posenc writes for programs only",
            )
            for program in PROGRAMS
        ),
        (sglang, PLAIN, Proportional(0.5), r"proportional\(fraction=0.5, .* default\(\) in SGLang"),
        (gguf, PLAIN, Proportional(0.5), "do not rotate"),
        (
            vllm,
            {**PLAIN, "model_type": "cohere"},
            YaRN(4.0, LENGTH, ramp="rotations"),
            "lists of factors only for half pairs, but the pairs of model_type 'cohere' are interleaved",
        ),
        (
            vllm,
            QWEN2_VL,
            Linear(2),
            "pairs use 3 axes, in chunked sections of 16, 24, 24 in the model, one axis in vLLM",
        ),
        (vllm, QWEN2_VL, YaRN(4, LENGTH), r"frequencies of .* original_length=256"),
        (vllm, {**QWEN2_VL, "rope_parameters": {"rope_theta": BASE}}, None, "pairs use 3 axes"),
        (mlx, QWEN2_VL, None, "model_type 'qwen2_vl_text' was not checked in mlx-lm"),
        (gguf, QWEN2_VL, None, "'qwen2_vl_text' has sections, which posenc cannot write for llama.cpp"),
        (gguf, {**PLAIN, "model_type": "mistral", "sliding_window": 8}, None, "'mistral' has windows, which"),
        (
            gguf,
            {**PLAIN, "model_type": "ministral3", "rope_parameters": SCALED},
            None,
            "'ministral3' has query scales",
        ),
        (vllm, {**PLAIN, "model_type": "ministral3", "rope_parameters": SCALED}, None, "the query scale is"),
        (
            mlx,
            {**PLAIN, "model_type": "ministral3", "rope_parameters": YARN},
            None,
            "reads llama_4_scaling_beta in rope_parameters, which has no default; add llama_4_scaling_beta",
        ),
        (vllm, V3, Linear(2), "vLLM reads rope_type 'linear' of a DeepSeek model as YaRN, and fails without"),
        (vllm, V3, Llama3(2.0, LENGTH), r"llama3\(factor=2, .* in the model, base 10000, yarn\(factor=2, "),
        (vllm, V3, YaRN(2, LENGTH, truncate=False), r"truncate=False\) in the model, base 10000, yarn\(factor=2, "),
        (gguf, V3, None, "llama.cpp has only one field for both"),
        (gguf, V3, Linear(2), "llama.cpp has only one field for both"),
        (mlx, PLAIN, YaRN(1, LENGTH, attention_factor=1.5), "attention_factor=1.5 cannot be written as mscale"),
        (  # it has no rows past the factor
            partial(vllm, max_length=257),
            PLAIN,
            YaRN(4, LENGTH),
            "max_length=257 must be at most factor=4 times original_length=64",
        ),
        (vllm, GPTJ, None, "'gptj' has a hard-coded base"),
        (mlx, GPTJ, None, "'gptj' has a hard-coded base"),
    ],
)
def test_what_a_program_does_not_compute_is_refused(
    program: Any, config: dict[str, Any], scaling: Any, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        program(read(config), scaling)


def test_mlx_gets_the_only_dictionary_that_its_model_reads() -> None:
    """Its Ministral 3 reads rope_parameters and the numbers of the query scale in it, with no defaults."""
    positions = read({**PLAIN, "model_type": "ministral3", "rope_parameters": SCALED})
    config = mlx(positions, YaRN(8.0, LENGTH))
    assert "rope_scaling" not in config
    stated = {"factor": 8.0, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": LENGTH}
    assert stated.items() <= config["rope_parameters"].items()
    assert read(config).scales == positions.scales


def test_another_key_of_the_length() -> None:
    config = {"model_type": "bailing_hybrid", "rope_theta": BASE, **SIZES, "model_max_length": LENGTH}
    del config["max_position_embeddings"]
    positions = read({**config, "head_dim": DIM, "qk_rope_head_dim": DIM, "qk_nope_head_dim": DIM})
    assert vllm(positions, Linear(2))["model_max_length"] == LENGTH
    assert gguf(positions).values["llama.context_length"] == LENGTH
    published = {**positions.source, "max_position_embeddings": LENGTH}  # files of Ling 3.0 have this name
    del published["model_max_length"]
    keys = vllm(read(published), YaRN(2, LENGTH))
    assert (keys["max_position_embeddings"], "model_max_length" in keys) == (2 * LENGTH, False)


def test_a_null_of_the_config_itself_stays() -> None:
    """A Mistral without a window says so by null; its class takes 4,096 if the key is missing."""
    config = {"model_type": "mistral", "sliding_window": None, "rope_theta": 1e4, "head_dim": 8}
    assert laid_over(config, {"head_dim": None, "rope_theta": 1e6}) == {
        "model_type": "mistral",
        "sliding_window": None,
        "rope_theta": 1e6,
    }
