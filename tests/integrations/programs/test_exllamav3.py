"""ExLlamaV3 turns by the config that is written for it as the model does: its own files, run on a CPU.

`python test_exllamav3.py FOLDER` asks, a line of cases each: ``util/rope.py`` as released, and out of
``model/config.py`` what reads a config into its settings.
"""

import math
import re
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posenc.errors import InvalidArgument
from posenc.integrations.differences import differences
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.position_table import of
from posenc.integrations.program_tables import defaults
from posenc.integrations.programs import exllamav3
from posenc.integrations.rope_dictionaries import ORIGINAL
from posenc.scaling import Default, DynamicNTK, Linear, Llama3, LongRoPE, YaRN
from support.answering import answer_lines
from support.released import functions, released
from support.served import LENGTH, PLAIN, PROGRAMS, YARN, Case, asked

LISTS = LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0)
CASES = [
    *(Case(PLAIN, one, 4 * LENGTH) for one in (Default(), Llama3(4.0, LENGTH), YaRN(4, LENGTH), LISTS)),
    *(Case(PLAIN, YaRN(4, LENGTH, attention_factor=a, truncate=False), 4 * LENGTH) for a in (None, 1.0)),
    Case(PLAIN, Linear(4.0)),
]

VERSIONS = [
    pytest.param(
        version,
        marks=pytest.mark.skipif(
            not (PROGRAMS / f"exllamav3-{version}").exists(),
            reason="no ExLlamaV3 here; type: python tools/programs.py",
        ),
    )
    for version in exllamav3.PROGRAM.releases.versions
]


def ask(version: str, cases: list[dict[str, Any]]) -> list[list[list[float]]]:
    """The rows of cos and sin that a release answers."""
    answers: list[list[list[float]]] = asked("test_exllamav3.py", f"exllamav3-{version}", cases)
    return answers


@pytest.mark.programs
@pytest.mark.parametrize("version", VERSIONS)
def test_exllamav3_turns_as_meant(version: str) -> None:
    given = [exllamav3.write(case.read, case.scaling, max_length=case.max_length) for case in CASES]
    cases = [{"config": config, "positions": case.positions} for config, case in zip(given, CASES, strict=True)]
    for case, answer in zip(CASES, ask(version, cases), strict=True):
        case.check(answer)


@pytest.mark.programs
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_read_is_what_it_computes(version: str) -> None:
    """Of configs in which it departs: a factor that the lengths contradict, a pair, two bases, missing keys."""
    pair = {"mscale": 1.0, "mscale_all_dim": 0.5}
    longer = {**PLAIN, "max_position_embeddings": 8 * LENGTH}
    configs = [
        {**longer, "rope_scaling": YARN},
        {**longer, "rope_scaling": {**YARN, **pair}},
        {**longer, "rope_scaling": {"rope_type": "llama3"}},
        {**longer, "model_type": "glm4", "head_dim": 16},
        {**longer, "model_type": "glm4", "head_dim": 16, "partial_rotary_factor": 0.5},
        {
            **longer,
            "model_type": "qwen3",
            "head_dim": 16,
            "rope_scaling": {"rope_type": "llama3", ORIGINAL: LENGTH},
        },
        {**longer, "rope_theta": 5e5, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ]
    answers = ask(version, [{"config": one, "positions": [1, 63]} for one in configs])
    for config, tables in zip(configs, answers, strict=True):
        (layer,) = exllamav3.read(config, version).layers.values()
        for position, row in zip((1, 63), tables, strict=True):
            cos = [layer.attention_factor * math.cos(position * theta) for theta in layer.frequencies]
            assert row[: len(cos)] == pytest.approx(cos, abs=1e-5)


@pytest.mark.programs
@pytest.mark.parametrize("version", VERSIONS)
def test_pairs_are_those_that_each_file_states(version: str) -> None:
    styles = {"half": "NEOX", "interleaved": "GPTJ"}
    for name in defaults("exllamav3"):
        file = PROGRAMS / f"exllamav3-{version}" / "exllamav3" / "architecture" / f"{name}.py"
        text = file.read_text("utf-8")
        stated = re.findall(r"read_rope_settings_default\(RopeStyle\.(\w+)\)", text)
        assert (stated or ["NEOX"] * ("from .llama import" in text)) == [styles[FAMILIES[name].pairing]], name


def test_a_factor_that_the_lengths_contradict_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"ExLlamaV3 1\.6\.5 would compute differently: all: frequencies of"):
        exllamav3.write(read(PLAIN), YaRN(4, LENGTH), max_length=3 * LENGTH)
    with pytest.raises(InvalidArgument, match="posenc writes only for transformers"):
        exllamav3.write(read(PLAIN), DynamicNTK(4.0, LENGTH))


def test_the_pair_is_not_read() -> None:
    config = {
        **PLAIN,
        "max_position_embeddings": 4 * LENGTH,
        "rope_scaling": {**YARN, "mscale": 1, "mscale_all_dim": 1},
    }
    assert [one.what for one in differences(of(read(config)), exllamav3.read(config))] == ["attention_factor"]


def main(folder: Path) -> None:
    """Answer every case."""
    rope = released(folder, "exllamav3.util.rope", {})
    known = {"cast": lambda kind, value: value, "no_default": object()}
    read_dict = functions(folder / "exllamav3" / "util" / "file.py", ("read_dict",), known)["read_dict"]
    settings = functions(
        folder / "exllamav3" / "model" / "config.py",
        ("read_rope_settings_default",),
        {"read_dict": read_dict, "RopeSettings": rope.RopeSettings},
    )["read_rope_settings_default"]
    torch = import_module("torch")

    def answer(case: dict[str, Any]) -> list[list[float]]:
        made = settings(SimpleNamespace(config_dict=case["config"], head_dim=16), rope.RopeStyle.NEOX)
        sin, cos = rope.RoPE("cpu", made).compute_sincos(torch.tensor(case["positions"]))
        half = cos.shape[-1] // 2
        return torch.cat((cos[:, :half], sin[:, :half]), -1).tolist()

    answer_lines(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
