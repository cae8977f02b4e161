"""Issues and pull requests of other projects about one config computed in two ways, each rebuilt as a small case.

What is in a file, a flag or a default is a pair of files or programs, which ``posenc diff`` names; what a port
computes otherwise from the right file is named by ``assert_vectors``.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from posenc.integrations.huggingface import read
from posenc.integrations.position_table import of
from posenc.integrations.vectors import Vectors, assert_vectors, vectors
from support.files import compared, converted, saved
from support.places import CONFIGS
from support.served import SIZES
from support.stranger import Engines

PLAIN = {**SIZES, "model_type": "llama", "hidden_size": 512, "max_position_embeddings": 131072}
YARN = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
DEFAULT = {"rope_type": "default", "rope_theta": 5e5}
LISTS = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 64,
    "long_factor": [1.0 + i / 4 for i in range(64)],
    "original_max_position_embeddings": 4096,
}
PHI = {
    "model_type": "phi3",
    "hidden_size": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "partial_rotary_factor": 1.0,
}


@dataclass(frozen=True)
class Pair:
    """A config, and what another file, or a program, makes of it.

    Args:
        config: of file A.
        other: a program; the config of file B; or the values of a GGUF file in place of the right ones.
        whats: what is named, as the first of all.
        draft: the sentence about a draft, where B is one.
    """

    config: dict[str, Any]
    other: str | dict[str, Any]
    whats: tuple[str, ...] = ("frequencies",)
    draft: str = ""
    gguf: str = ""


def v5(entry: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**PLAIN, "rope_parameters": entry, **more}


def stated(**more: Any) -> dict[str, Any]:
    return v5({**YARN, **more})


UNSCALED = {"rope__scaling__type": "none", "rope__scaling__factor": None}
BOTH = ("frequencies", "attention_factor")
V4 = "transformers@4.57.6"
PAIRS: dict[str, Pair] = {
    "Open-Athena/MarinFold 184": Pair(v5(LLAMA3), V4),
    "vllm-project/vllm 42624": Pair(v5(DEFAULT), v5({**DEFAULT, "rope_theta": 1e4})),
    "deepspeedai/DeepSpeed 8341": Pair(v5(LLAMA3), v5(DEFAULT)),
    "deepspeedai/DeepSpeed 8345": Pair(v5(DEFAULT, model_type="mistral"), V4),
    "deepspeedai/DeepSpeed 8373": Pair(v5(DEFAULT, model_type="qwen2"), V4),
    "sgl-project/sglang 26187": Pair(v5(DEFAULT, model_type="qwen3", head_dim=128), V4),
    "InternLM/lmdeploy 4304": Pair(v5(YARN), V4, BOTH),
    "ggml-org/llama.cpp 24820": Pair(
        {**PHI, "rope_parameters": LISTS}, {"lists": False, "rope__scaling__attn_factor": None}, BOTH, gguf="phi3"
    ),
    "ggml-org/llama.cpp 18013": Pair(v5(YARN), {**UNSCALED, "rope__freq_base": None}, BOTH, gguf="llama"),
    "ggml-org/llama.cpp 13322": Pair(
        v5(YARN, model_type="qwen3_moe", head_dim=128), UNSCALED, BOTH, gguf="qwen3moe"
    ),
    "onnxruntime/mobius 458": Pair(
        v5({"rope_type": "linear", "rope_theta": 5e5, "factor": 8.0}), {"rope__scaling__factor": None}, gguf="llama"
    ),
    "bartowski/DeepSeek-V2.5-GGUF": Pair(
        v5(YARN), {"rope__scaling__attn_factor": 40.0}, ("attention_factor",), gguf="llama"
    ),
    "ggml-org/llama.cpp 17945": Pair(
        v5(YARN), {"rope__scaling__attn_factor": 1.1386294}, ("attention_factor",), gguf="llama"
    ),
    "PrimeIntellect-ai/prime-rl 2802": Pair(
        stated(factor=64.0, attention_factor=1.0), "vllm@0.29.0", ("attention_factor",)
    ),
    "vllm-project/vllm 48351": Pair(stated(attention_factor=1.0), "vllm@0.29.0", ("attention_factor",)),
    "vllm-project/vllm 48621": Pair(
        stated(factor=2.0, mscale=1.0, mscale_all_dim=1.0), "vllm@0.29.0", ("attention_factor",)
    ),
    "ml-explore/mlx-lm 1507": Pair(
        {
            **PLAIN,
            "rope_theta": 5e5,
            "rope_scaling": {key: value for key, value in YARN.items() if key != "rope_theta"}
            | {"attention_factor": 1.0},
        },
        "mlx-lm",
        ("attention_factor",),
    ),
    "raullenchai/Rapid-MLX 1225": Pair(
        stated(attention_factor=0.5), stated(attention_factor=1.0), ("attention_factor",)
    ),
    "turboderp-org/exllamav3 259": Pair(stated(mscale=1.0, mscale_all_dim=1.0), stated(), ("attention_factor",)),
    "vllm-project/vllm 48894": Pair(
        v5(LLAMA3),
        v5({**LLAMA3, "factor": 8.0}, num_hidden_layers=1, max_position_embeddings=2048),
        ("tuned_length", "admitted_length"),
        "the draft model allows only 2,048 tokens, but its target allows 131,072",
    ),
    "vllm-project/vllm 24662": Pair(
        v5(DEFAULT, max_position_embeddings=8192),
        v5(DEFAULT, max_position_embeddings=2048),
        ("pretrained_length",),
        "the draft model allows only 2,048 tokens, but its target allows 8,192",
    ),
    "sgl-project/sglang 6783": Pair(
        v5(LLAMA3), v5(DEFAULT, max_position_embeddings=2048), ("frequencies",), "cos first differs by more than "
    ),
    "NVIDIA-NeMo/Automodel 2399": Pair(
        json.loads((CONFIGS / "gpt-oss-20b.json").read_text()),
        {**PLAIN, "head_dim": 64, "rope_theta": 150000.0},
        ("frequencies",),
        "cos first differs by more than 0.01 at position 0",
    ),
}


@pytest.mark.parametrize("thread", PAIRS)
def test_diff_names_it(thread: str, tmp_path: Path) -> None:
    pair = PAIRS[thread]
    first = saved(tmp_path, "config.json", pair.config)
    if pair.gguf:
        values = dict(pair.other)  # type: ignore[call-overload]
        assert compared(first, converted(tmp_path, "right.gguf", pair.config, pair.gguf))[0] == 0
        second = converted(tmp_path, "wrong.gguf", pair.config, pair.gguf, **values)
    elif isinstance(pair.other, dict):
        second = saved(tmp_path, "other.json", pair.other)
    else:
        second = f"{pair.other}:{first}"
    status, differences, lines = compared(first, *(["--draft"] if pair.draft else []), second)
    assert status == 1
    assert [one["what"] for one in differences][: len(pair.whats)] == list(pair.whats)
    assert pair.draft in lines


def turned(config: dict[str, Any], **instead: Any) -> tuple[Any, Vectors]:
    """A port that rotates by a config with something in place of what it says, and the right vectors."""
    expected = vectors(read(config))
    return Engines(expected.header, **instead).rotate, expected


def plain_vectors(config: dict[str, Any], base: dict[str, Any]) -> tuple[Any, Vectors]:
    """A port that gives the vectors of another config, and the right vectors."""
    expected = vectors(read(config))
    other = vectors(read(base), expected.arrays["all.positions"][0].tolist())
    return {key: one for key, one in other.arrays.items() if key.endswith((".cos", ".sin"))}, expected


OLDER = {**PLAIN, "rope_theta": 5e5}
SECTIONS = {"mrope_section": [24, 20, 20], "mrope_interleaved": True}
VISION = {**PLAIN, "model_type": "qwen3_vl_text", "head_dim": 128}
PORTS: dict[str, tuple[Callable[[], tuple[Any, Vectors]], str]] = {
    "Blaizzy/mlx-vlm 1710": (
        partial(turned, {**OLDER, "rope_scaling": LLAMA3}, rope_type="default"),
        "omits the model's llama3",
    ),
    "unslothai/unsloth 6197": (
        partial(turned, json.loads((CONFIGS / "llama-3.1-8b.json").read_text()), rope_type="default"),
        "omits the model's llama3",
    ),
    "jundot/omlx 3347": (
        partial(
            plain_vectors,
            {**VISION, "rope_parameters": {**YARN, **SECTIONS}},
            {**VISION, "rope_parameters": {**DEFAULT, **SECTIONS}},
        ),
        "omits the model's yarn(factor=4",
    ),
    "NVIDIA/TensorRT-LLM 4728": (
        partial(plain_vectors, {**PHI, "rope_parameters": LISTS}, {**PHI, "rope_theta": 1e4}),
        "omits the model's LongRoPE scaling",
    ),
    "NeuraLegion/shainet 111": (
        partial(turned, OLDER, pairing="interleaved"),
        "channels (2i, 2i+1) instead of (i, i+",
    ),
    "ohdearquant/lattice 96": (
        partial(
            turned,
            {**OLDER, "model_type": "glm4_moe", "head_dim": 256, "partial_rotary_factor": 0.25, "rope_theta": 1e7},
            pairing="interleaved",
        ),
        "channels (2i, 2i+1) instead of (i, i+",
    ),
    "jmaczan/tiny-vllm 6": (
        partial(turned, {**OLDER, "rope_scaling": {**LLAMA3, "factor": 32.0}}, pairing="interleaved"),
        "channels (2i, 2i+1) instead of (i, i+",
    ),
}


@pytest.mark.parametrize("thread", PORTS)
def test_vectors_name_it(thread: str) -> None:
    make, cause = PORTS[thread]
    port, expected = make()
    with pytest.raises(AssertionError, match=re.escape(cause)):
        assert_vectors(port, expected)


def test_the_cosines_that_were_measured_there() -> None:
    """mlx-vlm 1710 gives them for Llama 3.2 and one drawn query; ours are the mean over all."""
    right, plain = (of(read({**OLDER, **more})).layers["all"] for more in ({"rope_scaling": LLAMA3}, {}))
    for position, measured in {0: 1.0, 1000: 0.959, 8192: 0.757, 20000: 0.619, 60000: 0.503}.items():
        pairs = zip(right.frequencies, plain.frequencies, strict=True)
        assert sum(math.cos(position * (a - b)) for a, b in pairs) / 64 == pytest.approx(measured, abs=0.04)
