"""Published configs: read as transformers' class reads them, or refused with a sentence that says what to do."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.families import READ_AS
from posenc.integrations.huggingface.model_positions import ModelPositions
from support.fuzzing import CLOSE, rotations

LINES = (Path(__file__).parents[1] / "data" / "published_configs.jsonl").read_text("utf-8").splitlines()
PUBLISHED: dict[str, dict[str, Any]] = {line["name"]: line for line in map(json.loads, LINES)}
REFUSED = {
    **dict.fromkeys(
        ("baichuan-inc/Baichuan2-7B", "internlm", "llava", "meta-llama/Llama-2-7b-chat-hf"),
        r"has no 'rope_theta'.*add the base that the model was trained with, or pass base=",
    ),
    **dict.fromkeys(
        ("Qwen/Qwen-72B-Chat", "Qwen/Qwen3-ASR", "THUDM/chatglm3-6b-32k"),
        "unknown model_type .*nearest: .*as_type=",
    ),
    "phi-2": "n_embd=2560 must be named 'hidden_size' in model_type 'phi'",
    "zai-org/GLM-4.1V": "'glm4v'",
}
"""What is not read, and why."""


def layers(positions: ModelPositions) -> tuple[Any, ...]:
    """What every layer has, and the two lengths."""
    each = [(positions.recipes[kind], positions.scales.get(kind)) for kind in positions.layer_types]
    return each, positions.windows, positions.chunk, positions.original_length, positions.max_length


def made_by_class(line: dict[str, Any]) -> Any:
    """The object that transformers makes of the config; None where no class has such a type."""
    config = copy.deepcopy(line["config"])
    if "as_type" in line:
        config["model_type"] = line["as_type"]
    model_type = config["model_type"]
    if model_type not in CONFIG_MAPPING:
        model_type = config["model_type"] = READ_AS.get(model_type, model_type)
    return CONFIG_MAPPING[model_type].from_dict(config) if model_type in CONFIG_MAPPING else None


@pytest.mark.parametrize("name", sorted(PUBLISHED.keys() - REFUSED))
def test_a_published_config_is_read_as_its_class_reads_it(name: str) -> None:
    line = PUBLISHED[name]
    positions = read(copy.deepcopy(line["config"]), as_type=line.get("as_type"))
    made = made_by_class(line)
    if made is None:
        assert name == "moonshotai/Kimi-K3"  # whose language model, kimi_linear, has no positions
        assert set(positions.recipes) == {"nope"}
        return
    assert layers(positions) == layers(read(made))
    text = made.get_text_config()
    if getattr(text, "rope_parameters", None) and "hunyuan" not in text.model_type:  # whose code wants head_dim
        for own, ours in rotations(text, positions):
            torch.testing.assert_close(ours, own, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", REFUSED)
def test_a_published_config_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(InvalidArgument, match=REFUSED[name]):
        read(copy.deepcopy(PUBLISHED[name]["config"]), as_type=PUBLISHED[name].get("as_type"))


def test_each_says_where_it_was_read() -> None:
    assert len(PUBLISHED) == len(LINES) >= 60
    for line in PUBLISHED.values():
        assert re.fullmatch(r"[^/@]+/[^/@]+@[0-9a-f]{40}:.+", line["source"])


def test_as_type_reads_by_the_rules_of_a_family() -> None:
    config = {**PUBLISHED["moonshotai/Kimi-K2-Instruct"]["config"], "model_type": "my_own"}
    with pytest.raises(InvalidArgument, match=r"unknown model_type 'my_own'.*as_type='llama'"):
        read(config)
    own = read(config, as_type="deepseek_v3")
    assert own.recipes == read({**config, "model_type": "deepseek_v3"}).recipes
    assert own.source["model_type"] == "my_own"
    with pytest.raises(InvalidArgument, match="unknown as_type 'deepseek_v33'; did you mean 'deepseek_v3'"):
        read(config, as_type="deepseek_v33")


def test_hunyuan_stretches_by_alpha_alone() -> None:
    line = PUBLISHED["tencent/Hunyuan-A13B"]
    positions, made = read(line["config"], as_type="hunyuan_v1_moe"), made_by_class(line)
    made.head_dim = 128
    (own, ours), *more = rotations(made, positions)
    assert not more
    torch.testing.assert_close(ours, own, rtol=0, atol=CLOSE)
    assert positions.rotary.get("scaling").factor == 1000
    twisted = {**line["config"], "rope_scaling": {**line["config"]["rope_scaling"], "alpah": 2}}
    with pytest.raises(InvalidArgument, match="'alpah'; did you mean 'alpha'"):
        read(twisted, as_type="hunyuan_v1_moe")
