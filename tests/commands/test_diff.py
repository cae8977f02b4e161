"""`posenc diff`: what two files, or two programs, make of one model's positions; threads are in test_threads.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface import read
from posenc.integrations.programs import laid_over, vllm
from posenc.integrations.sources import table
from posenc.scaling import YaRN
from support.field.case import DATA
from support.files import compared, converted, saved
from support.places import CONFIGS
from support.served import SIZES

MODEL = {"model_type": "llama", **SIZES, "hidden_size": 512, "max_position_embeddings": 32768}
YARN = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0, "original_max_position_embeddings": 8192}


def test_equal_files_have_status_0(tmp_path: Path) -> None:
    config = saved(tmp_path, "config.json", {**MODEL, "rope_parameters": YARN})
    older = saved(
        tmp_path,
        "older.json",
        {**MODEL, "rope_theta": 5e5, "rope_scaling": {k: v for k, v in YARN.items() if k != "rope_theta"}},
    )
    for other in (
        config,
        older,
        str(tmp_path),
        f"vllm:{config}",
        f"vllm@0.29.0:{config}",
        f"transformers@4.57.6:{older}",
    ):
        assert compared(config, other) == (0, [], "no differences\n")
    right = converted(tmp_path, "right.gguf", {**MODEL, "rope_parameters": YARN})
    assert compared(config, right) == (0, [], "no differences\n")
    assert compared(config, f"mlx:{older}")[0] == compared(f"sglang:{config}", f"llama.cpp:{config}")[0] == 0


def test_code_on_the_hub_is_compared_by_the_rules_of_a_family(tmp_path: Path) -> None:
    ours = saved(tmp_path, "ours.json", {**MODEL, "rope_theta": 5e5})
    theirs = saved(tmp_path, "theirs.json", {**MODEL, "rope_theta": 5e5, "model_type": "somebodys_llama"})
    assert compared(ours, theirs, "--as-type", "llama") == (0, [], "no differences\n")
    with pytest.raises(UnknownName, match=r"as_type='llama' .*for programs, change model_type in the config"):
        raise CliRunner().invoke(app, ["diff", ours, theirs]).exception or AssertionError


@pytest.mark.parametrize("program", ["transformers@4.57.6", "mlx"])
def test_a_config_of_transformers_5_read_by_what_knows_4(program: str, tmp_path: Path) -> None:
    config = saved(
        tmp_path, "config.json", {**MODEL, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    )
    status, (difference,), lines = compared(config, f"{program}:{config}")
    assert (status, difference["what"]) == (1, "frequencies")
    assert "base 500000, default() in ours, base 10000, default() in theirs" in lines
    assert "rope_parameters is not read by" in lines
    zero, *later = difference["errors"]
    assert zero == {"position": 0, "cos": 0.0, "score": 0.0}
    assert all(error["cos"] > 0.5 for error in later)


@pytest.mark.parametrize(
    ("entry", "program", "factors"),
    [
        ({"attention_factor": 1.0}, "vllm@0.29.0", (1.0, 1.138629436111989)),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, "vllm@0.29.0", (1.0, 1.138629436111989)),
        ({"attention_factor": 1.0}, "sglang", (1.0, 1.138629436111989)),
        ({"attention_factor": 1.0}, "llama.cpp", (1.0, 1.138629436111989)),
        ({"attention_factor": 1.0}, "mlx", (1.0, 1.138629436111989)),
        (
            {"mscale": 0.7, "mscale_all_dim": 1.0},
            "llama.cpp",
            (1.0970406052783923 / 1.138629436111989, 1.138629436111989),
        ),
    ],
)
def test_a_stated_attention_factor_that_is_not_read(
    entry: dict[str, Any], program: str, factors: tuple[float, float], tmp_path: Path
) -> None:
    older = {"rope_theta": 5e5, "rope_scaling": {k: v for k, v in {**YARN, **entry}.items() if k != "rope_theta"}}
    stated = older if program == "mlx" else {"rope_parameters": {**YARN, **entry}}
    config = saved(tmp_path, "config.json", {**MODEL, **stated})
    status, (difference,), lines = compared(config, f"{program}:{config}")
    assert (status, difference["what"]) == (1, "attention_factor")
    assert (difference["ours"], difference["theirs"]) == pytest.approx(factors)
    assert difference["errors"][0]["cos"] == pytest.approx(abs(factors[1] - factors[0]))  # at position 0 already
    assert lines.startswith("all: cos and sin are multiplied by ")


@pytest.mark.parametrize(
    ("wrong", "whats"),
    [
        ({"rope__scaling__type": "none", "rope__scaling__factor": None}, "frequencies, attention_factor"),
        ({"rope__scaling__type": "linear"}, "frequencies, attention_factor"),
        ({"rope__freq_base": None}, "frequencies"),
        ({"rope__scaling__factor": 40.0}, "frequencies, attention_factor"),
        ({"rope__scaling__attn_factor": 40.0}, "attention_factor"),
        ({"rope__scaling__original_context_length": None}, "frequencies, pretrained_length"),
        ({"rope__dimension_count": 64}, "rotary_dim"),
        ({"context_length": 4096}, "admitted_length, tuned_length"),
    ],
    ids=str,
)
def test_a_gguf_file_that_lost_or_invented_scaling(wrong: dict[str, Any], whats: str, tmp_path: Path) -> None:
    content = {**MODEL, "rope_parameters": YARN}
    config = saved(tmp_path, "config.json", content)
    status, differences, _ = compared(config, converted(tmp_path, "wrong.gguf", content, **wrong))
    assert status == 1
    assert set(whats.split(", ")) <= {one["what"] for one in differences}


def test_llama_3_1_in_a_gguf_file(tmp_path: Path) -> None:
    content = json.loads((CONFIGS / "llama-3.1-8b.json").read_text())
    file = converted(tmp_path, "model.gguf", content, block_count=32)
    assert compared(str(CONFIGS / "llama-3.1-8b.json"), file)[0] == 0
    lost = converted(tmp_path, "lost.gguf", {**content, "rope_scaling": None}, block_count=32)
    assert "frequencies" in {one["what"] for one in compared(str(CONFIGS / "llama-3.1-8b.json"), lost)[1]}


def test_what_was_not_asked_is_in_the_answer(tmp_path: Path) -> None:
    config = saved(
        tmp_path, "config.json", {**MODEL, "model_type": "olmo3", "rope_theta": 5e5, "sliding_window": 8}
    )
    status, differences, lines = compared(config, f"mlx:{config}")
    assert (status, differences) == (0, [])
    first, second, *_ = lines.splitlines()
    assert first == "no differences in the settings that were compared"
    assert second == "note on theirs: not asked: the windows of 'olmo3'"


def test_a_draft_with_another_table(tmp_path: Path) -> None:
    target = saved(tmp_path, "target.json", {**MODEL, "rope_parameters": YARN})
    plain = saved(tmp_path, "plain.json", {**MODEL, "num_hidden_layers": 1, "rope_theta": 5e5})
    status, differences, lines = compared(target, "--draft", plain)
    assert (status, differences[0]["what"]) == (1, "frequencies")
    assert "cos first differs by more than 0.01 at position 0" in lines  # by the attention factor
    copied = saved(tmp_path, "copied.json", {**MODEL, "num_hidden_layers": 1, "rope_parameters": YARN})
    assert compared(target, "--draft", copied) == (0, [], "no differences\n")


PLAIN = {**MODEL, "rope_theta": 1e6}
GEMMA, PHI, WHISPER = (
    json.loads((CONFIGS.parent / f"{name}.json").read_text())
    for name in ("configs/gemma-3-4b", "configs/phi-3-mini-128k", "field/whisper")
)
SHORT, LONG = (PHI["rope_scaling"][f"{name}_factor"] for name in ("short", "long"))


@pytest.mark.parametrize(
    ("ours", "option", "changes", "line"),
    [
        (GEMMA, "--draft", {**PLAIN, "head_dim": 256}, "at position 1\n"),  # whose layer types have other names
        (PLAIN, "--draft", {"head_dim": 256, "rope_theta": 1e4}, "\ncos was not compared, because no layers"),
        (PLAIN, "--draft", {"max_position_embeddings": 2048}, "draft model allows only 2,048 tokens, but its"),
        (PLAIN, "--draft", {"max_position_embeddings": 2048}, "longest allowed input is 32,768 in ours, 2,048 in"),
        (
            PLAIN,
            "--positions=0",
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
            "beyond 32,768 tokens: ",
        ),
        (
            WHISPER,
            "--positions=0",
            {"max_source_positions": 3000},
            "positions of the encoder: 1,500 in ours, 3,000 in",
        ),
        (
            {**PLAIN, "model_type": "smollm3", "no_rope_layers": [1, 1]},
            "--positions=0",
            {"no_rope_layers": [1, 0]},
            "rotary: in 1 of 2 layers, the encoding is rotary in ours, nope in theirs\n",
        ),
        (
            PHI,
            "--positions=9",
            {"original_max_position_embeddings": 8192},
            "all: in requests of 4,097 to 8,192 tok",
        ),
        (
            PHI,
            "--positions=9",
            {"rope_scaling": {"type": "su", "short_factor": LONG, "long_factor": SHORT}},  # the lists are swapped
            "\nall: in requests of up to 4,096 tokens, frequencies of 46 of 48 pairs differ",
        ),
        (
            PHI,
            "--positions=9",
            {"rope_scaling": {"type": "su", "short_factor": SHORT, "long_factor": SHORT}},
            "all: in requests of more than 4,096 tokens, frequencies of 46 of 48 pairs differ",
        ),
    ],
)
def test_a_line_for_two_configs(
    ours: dict[str, Any], option: str, changes: dict[str, Any], line: str, tmp_path: Path
) -> None:
    theirs = changes if "model_type" in changes else {**ours, **changes}
    assert line in compared(saved(tmp_path, "ours.json", ours), option, saved(tmp_path, "theirs.json", theirs))[2]


def test_overrides_are_laid_over_the_other_file(tmp_path: Path) -> None:
    plain = {**MODEL, "max_position_embeddings": 8192, "rope_theta": 5e5}
    config = saved(tmp_path, "config.json", plain)
    overrides = saved(tmp_path, "overrides.json", vllm.write(read(plain), YaRN(4, 8192)))
    status, differences, _ = compared(config, f"vllm:{overrides}")
    assert (status, differences[0]["what"]) == (1, "frequencies")
    assert table(f"vllm:{overrides}", config).admitted_length == 32768
    whole = {"model_type": "mistral3", "text_config": plain}
    given = saved(tmp_path, "inner.json", vllm.write(read(whole), YaRN(4, 8192)))
    assert table(f"vllm:{given}", saved(tmp_path, "whole.json", whole)).admitted_length == 32768
    assert laid_over(
        {"a": 1, "rope_scaling": {"factor": 2}}, {"a": None, "rope_parameters": {"b": None, "c": 1}}
    ) == {"rope_parameters": {"c": 1}}


@pytest.mark.parametrize(
    ("program", "nested", "kept"),
    [
        ("vllm", False, False),  # vllm/config/model.py:555 sets a dictionary, and :527 merges in nested configs
        ("vllm", True, True),
        ("vllm@0.29.0", True, True),
        ("sglang", False, True),  # sglang/srt/utils/hf_transformers/config.py:424 merges, but not in nested configs
        ("sglang", True, False),
        ("sglang@0.5.15", False, False),
    ],
)
def test_each_program_merges_overrides_in_its_own_way(
    program: str, nested: bool, kept: bool, tmp_path: Path
) -> None:
    """Of a rope dictionary without the base, as in sgl-project/sglang 27974 and 33505, vllm-project/recipes 856."""
    plain = {**MODEL, "max_position_embeddings": 8192, "rope_theta": 5e5}
    entry = {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}}
    whole = {"model_type": "mistral3", "text_config": plain} if nested else plain
    config = saved(tmp_path, "config.json", whole)
    overrides = saved(tmp_path, "overrides.json", {"text_config": entry} if nested else entry)
    outside = saved(
        tmp_path, "outside.json", {"text_config": {"rope_theta": 1e6}} if nested else {"rope_theta": 1e6}
    )
    with pytest.raises(InvalidArgument, match="outside the rope dictionary of the overrides has no effect"):
        table(
            f"{program}:{outside}", config
        )  # rope_parameters has it: transformers_utils/config.py:989 sets a default
    assert table(outside, config).layers["all"].base == 1e6  # an edited file
    assert table(overrides, config).layers["all"].base == 5e5
    if not kept:  # the base would be a default of the model file: 1e6 in vllm/model_executor/models/qwen3.py:188
        with pytest.raises(InvalidArgument, match="add the config's rope_theta to the rope dictionary"):
            table(f"{program}:{overrides}", config)
        return
    (base,) = {layer.base for layer in table(f"{program}:{overrides}", config).layers.values()}
    assert base == 5e5
    llama = {**plain, "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}}
    scaled = saved(tmp_path, "llama.json", {**whole, "text_config": llama} if nested else llama)
    assert next(iter(table(f"{program}:{overrides}", scaled).layers.values())).base == base


def test_vllm_keeps_shares_and_sections_that_overrides_leave_out(tmp_path: Path) -> None:
    """As vLLM's recipes override YaRN alone in Qwen 3.5's config."""
    text = json.loads((DATA / "qwen35.json").read_text())
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144}
    overrides = saved(tmp_path, "overrides.json", {"text_config": {"rope_parameters": yarn}})
    text["rope_parameters"] |= {**yarn, "partial_rotary_factor": 0.5, "mrope_section": [24, 20, 20]}
    scaled = saved(tmp_path, "yarn.json", {"model_type": "qwen3_5_moe", "text_config": text})
    assert compared(scaled, f"vllm:{overrides}")[:2] == (0, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{config}",), "posenc diff compares two sources; pass either a second source or --draft"),
        (
            ("{config}", "{config}", "--positions", "a"),
            "--positions 'a' must be whole numbers from 0 to 2147483647",
        ),
        (("{config}", "{config}", "--positions", f"0,{2**31}"), "--positions '0,2147483648' must be whole numbers"),
        (("{config}", "{config}", "--positions", "9" * 20), f"--positions '{'9' * 20}' must be whole numbers"),
        (("{config}", "vlm@0.33.0:{config}"), r"program 'vlm' is unknown; use one of exllamav3, llama\.cpp"),
        (("{config}", "vlm:{config}"), r"program 'vlm' is unknown; use one of .*, vllm"),
        (("{config}", "vllm@0.1:{config}"), r"unknown version of vllm '0\.1'"),
        (("{config}", "{config}.gguf"), "is not a complete GGUF file"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    config = saved(tmp_path, "config.json", {**MODEL, "rope_theta": 5e5})
    Path(f"{config}.gguf").write_bytes(b"GGUF")
    with pytest.raises(InvalidArgument, match=message):
        CliRunner().invoke(app, ["diff", *(word.format(config=config) for word in words)], catch_exceptions=False)
