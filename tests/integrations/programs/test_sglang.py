"""SGLang turns by the overrides that are written for it as the model does: its own files, run on a CPU.

`python test_sglang.py FOLDER` asks, a line of cases each: the rotary files as released, and out of files that
load too much what lays overrides over a config, derives the length and hands a rope dictionary on.
"""

import ast
import copy
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read
from posenc.integrations.programs import sglang, vllm
from posenc.scaling import Default, Linear, LongRoPE, YaRN
from support.answering import answer_lines
from support.released import Layer, functions, released, run, statements
from support.served import DEEPSEEK, LENGTH, PARTS, PLAIN, PROGRAMS, SCALINGS, SECOND, STATED, YARN, Case, asked

VERSION = sglang.PROGRAM.releases.versions[-1]
FOLDER = f"sglang-{VERSION}"
CASES = [
    *(Case(PLAIN, scaling, 4 * LENGTH) for scaling in SCALINGS),
    *(Case(PLAIN, scaling) for scaling in (Linear(4), Linear(1.3), YaRN(4, LENGTH), YaRN(1.3, LENGTH))),
    *(Case({**PLAIN, "rope_parameters": stated}) for stated in (YARN, STATED, {**YARN, "attention_factor": 1.0})),
    Case({**PLAIN, "rope_parameters": STATED}, YaRN(8, LENGTH)),  # of whose pair nothing may stay
    *(Case(PARTS, scaling, 4 * LENGTH) for scaling in SCALINGS),
    Case(PARTS),
    *(Case({**DEEPSEEK, "rope_parameters": stated}) for stated in (SECOND, STATED, YARN)),
    *(
        Case({**DEEPSEEK, "rope_parameters": SECOND}, scaling)
        for scaling in (YaRN(2, LENGTH), YaRN(2, LENGTH, attention_factor=1.0), YaRN(2, LENGTH, beta_fast=8.0))
    ),
    Case({**DEEPSEEK, "rope_theta": 1e4}, YaRN(4, LENGTH, attention_factor=1.5)),
]


def overrides(case: Case) -> dict[str, Any]:
    return sglang.write(case.read, case.scaling, max_length=case.max_length)


def answers(cases: list[Case]) -> list[dict[str, Any]]:
    """What SGLang does with what is written for it."""
    return list(asked("test_sglang.py", FOLDER, [case.server(overrides(case)) for case in cases]))


@pytest.mark.programs
@pytest.mark.skipif(not (PROGRAMS / FOLDER).exists(), reason="no SGLang here; type: make programs")
def test_sglang_turns_as_meant_and_admits_what_is_meant() -> None:
    for case, answer in zip(CASES, answers(CASES), strict=True):
        case.check_answer(answer)
        assert case.served - 4 < answer["admitted"] <= answer["rows"], case
        assert answer["admitted"] <= case.served, case


@pytest.mark.programs
@pytest.mark.skipif(not (PROGRAMS / FOLDER).exists(), reason="no SGLang here; type: make programs")
def test_sglang_does_not_read_attention_factor() -> None:
    case = Case(PLAIN, YaRN(4, LENGTH, attention_factor=1.0))
    given = case.server(overrides(case))
    other = copy.deepcopy(given)
    other["overrides"]["rope_parameters"]["attention_factor"] = 3.0
    first, second = asked("test_sglang.py", FOLDER, [given, other])
    assert first["tables"] == second["tables"]
    del other["overrides"]["rope_parameters"]["attn_factor"]
    (wrong,) = asked("test_sglang.py", FOLDER, [other])
    with pytest.raises(AssertionError, match="too far"):
        case.check(wrong["tables"])


@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_keys_are_those_of_vllm_without_the_factor_that_is_ignored(scaling: Any) -> None:
    keys = vllm.write(read(PLAIN), scaling, max_length=4 * LENGTH)
    if "attn_factor" in keys["rope_parameters"]:
        for key in ("attention_factor", "mscale", "mscale_all_dim"):
            keys["rope_parameters"].pop(key, None)
    assert sglang.write(read(PLAIN), scaling, max_length=4 * LENGTH) == keys


def test_refusals_name_sglang() -> None:
    stretched, lists = {**PLAIN, "rope_parameters": YARN}, LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0)
    for config, scaling, longest, message in (
        (
            {"model_type": "x", "thinker_config": PARTS},
            None,
            None,
            "is in thinker_config.text_config, but SGLang merges overrides",
        ),
        (stretched, Linear(8), 8 * LENGTH, "SGLang does not multiply the maximum input length by factor=8 if"),
        (
            {**PLAIN, "model_type": "cohere"},
            lists,
            None,
            "vLLM and SGLang support lists of factors only for half pairs",
        ),
    ):
        with pytest.raises(InvalidArgument, match=message):
            sglang.write(read(config), scaling, max_length=longest)
    written = sglang.write(read(stretched), Default(), max_length=LENGTH)
    assert written["rope_parameters"]["rope_type"] == "default"


def main(folder: Path) -> None:
    """Answer every case."""
    from transformers import AutoConfig, PretrainedConfig

    ready: dict[str, Any] = {
        **dict.fromkeys(("is_cuda", "is_hip", "is_npu", "is_xpu", "is_musa", "is_mps"), lambda: False),
        **dict.fromkeys(("cpu_has_amx_support", "get_bool_env_var"), lambda *_: False),
        "is_cpu": lambda: True,
        "get_device": lambda: "cpu",
        "publish_role": lambda: None,
        "BaseFusedOp": Layer,
    }
    rotary = released(folder, "sglang.srt.layers.rotary_embedding", ready)
    inside = folder / "sglang" / "srt"
    common = inside / "utils" / "hf_transformers"
    tree = ast.parse((common / "common.py").read_text())
    keys = next(node for node in tree.body if "CONTEXT_LENGTH_KEYS" in ast.unparse(node))
    length = functions(common / "common.py", ("get_context_length",), run([keys], {}))["get_context_length"]
    scaled = functions(
        inside / "configs" / "model_config.py",
        ("compute_mla_mscale_scaling",),
        {"yarn_get_mscale": import_module("sglang.srt.layers.rotary_embedding.yarn").yarn_get_mscale},
    )["compute_mla_mscale_scaling"]
    plain = [
        *statements(inside / "models" / "llama.py", "LlamaDecoderLayer", "rope_parameters"),
        *statements(inside / "models" / "llama.py", "LlamaDecoderLayer", "original_max_position_embeddings"),
    ]
    deepseek = [
        *statements(inside / "models" / "deepseek_v2.py", "DeepseekV2DecoderLayer", "config.rope_parameters"),
        *statements(inside / "models" / "deepseek_v2.py", "DeepseekV2AttentionMLA", "'deepseek_yarn'"),
    ]

    def answer(case: dict[str, Any]) -> dict[str, Any]:
        config = AutoConfig.for_model(**case["config"])
        no = lambda *_: False  # noqa: E731
        laid = functions(
            common / "config.py",
            ("get_config",),
            {
                "check_gguf_file": no,
                "is_remote_url": no,
                "is_mistral_model": no,
                "get_model_config_parser": lambda _: SimpleNamespace(parse=lambda *_, **__: config),
                "DeepseekV41Config": type("Other", (), {}),
                "PretrainedConfig": PretrainedConfig,
                "Path": Path,
            },
        )["get_config"]
        text: Any = laid("", False, model_override_args=copy.deepcopy(case["overrides"]))
        for key in case["path"]:
            text = getattr(text, key)
        names = run(deepseek if case["deepseek"] else plain, {"config": text, "hasattr": hasattr})
        scaling, base = names["rope_scaling"], names["rope_theta"]
        longest, half = text.max_position_embeddings, case["half"]
        head = case["head_dim"]
        layer = rotary.get_rope(head, head, longest, base, half, scaling, torch.float32)
        long = hasattr(layer, "long_short_cos_sin_cache")
        table = layer.long_short_cos_sin_cache if long else layer.cos_sin_cache
        first = layer.original_max_position_embeddings if long else 0
        return {
            "admitted": length(text),
            "rows": len(table) - first,
            "scores": scaled(scaling, 1.0) if case["deepseek"] and scaling else 1.0,
            "tables": [table[first + position].tolist() for position in case["positions"]],
        }

    answer_lines(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
