"""What is printed to type makes a program compute what was asked for: the words are read back and given to it."""

import json
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations import huggingface
from posenc.integrations.differences import differences
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.model_positions import ModelPositions, scaling_of
from posenc.integrations.inspection import inspect
from posenc.integrations.position_table import of
from posenc.integrations.programs import laid_over, vllm
from posenc.integrations.serving import NOT_ASKED, REFUSED, in_words, serving
from posenc.integrations.sources import program_of
from posenc.scaling import Linear, Llama3, LongRoPE, YaRN
from support.checking import annotations_unchecked
from support.files import converted
from support.places import CONFIGS
from support.served import (
    BASE,
    DEEPSEEK,
    LENGTH,
    MLX_SIZES,
    PARTS,
    PLAIN,
    PROGRAMS,
    SCALINGS,
    SIZES,
    STATED,
    YARN,
    Case,
    ask_mlx,
    ask_vllm,
    asked,
)

CASES = [
    *(Case(PLAIN, scaling) for scaling in SCALINGS),
    Case(PLAIN, Linear(1.3)),
    *(Case({**PLAIN, "max_position_embeddings": 4 * LENGTH, "rope_parameters": entry}) for entry in (YARN, STATED)),
    Case({**PLAIN, "max_position_embeddings": 4 * LENGTH, "rope_parameters": {**YARN, "attention_factor": 1.0}}),
    *(Case(PARTS, scaling, 4 * LENGTH) for scaling in (YaRN(4, LENGTH, attention_factor=1.0), Llama3(8.0, LENGTH))),
    Case({**DEEPSEEK, "rope_theta": BASE}, YaRN(4, LENGTH, attention_factor=1.5)),
    Case(PLAIN),
]


def model(folder: Path, config: dict[str, Any]) -> Path:
    """The folder of a model with this config."""
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def answered(program: str, folder: Path, cases: list[Case]) -> Iterator[tuple[Case, dict[str, Any]]]:
    """The cases whose answer has a command or files, each with its answer."""
    for case in cases:
        answer = serving(program, model(folder, case.config), case.scaling, max_length=case.max_length)
        if not any(note.startswith((REFUSED, NOT_ASKED)) for note in answer["notes"]):
            yield case, answer


def typed(answer: dict[str, Any], overrides: str, length: str) -> tuple[dict[str, Any], int]:
    """The overrides and the length that stand in a command line."""
    words = shlex.split(answer["command"])
    given = json.loads(words[words.index(overrides) + 1]) if overrides in words else {}
    assert given == answer["overrides"]
    return given, int(words[words.index(length) + 1])


@pytest.mark.programs
@pytest.mark.skipif(not PROGRAMS.exists(), reason="no other programs here; type: make programs")
@pytest.mark.parametrize(
    ("program", "flags"),
    [
        ("vllm@0.29.0", ("--hf-overrides", "--max-model-len")),
        ("vllm@0.33.0", ("--hf-overrides", "--max-model-len")),
        ("sglang@0.5.23", ("--json-model-override-args", "--context-length")),
    ],
)
def test_a_server_computes_by_what_is_typed(program: str, flags: tuple[str, str], tmp_path: Path) -> None:
    cases, questions = [], []
    for case, answer in answered(program, tmp_path, CASES):
        overrides, length = typed(answer, *flags)
        cases.append(case)
        questions.append({**case.vllm(), "overrides": overrides, "served": length, "max_model_len": length})
    assert len(cases) > 15
    name, _, version = program.partition("@")
    answers = (
        ask_vllm(version, questions) if name == "vllm" else asked("test_sglang.py", f"sglang-{version}", questions)
    )
    for case, question, given in zip(cases, questions, answers, strict=True):
        case.check_answer(given)
        assert (
            given["admitted"] == question["served"] if name == "vllm" else given["admitted"] >= question["served"]
        )
        assert case.served - 4 < question["served"] <= case.served, case


@pytest.mark.programs
@pytest.mark.skipif(not PROGRAMS.exists(), reason="no other programs here; type: make programs")
def test_mlx_computes_by_the_edited_config(tmp_path: Path) -> None:
    phi = [Case(PHI, scaling, 4 * LENGTH) for scaling in BY_PAIR]
    every = list(answered("mlx-lm", tmp_path, [*CASES, *phi]))
    assert len(every) > 16
    assert {case.scaling for case, _ in every[-4:]} == {*BY_PAIR}
    questions = [
        {**case.mlx(), "given": {**MLX_SIZES, **laid_over(case.config, answer["files"].get("config.json", {}))}}
        for case, answer in every
    ]
    answers = ask_mlx(questions)
    for (case, _), given in zip(every, answers, strict=True):
        case.check_answer(given)


QWEN = {"model_type": "qwen3", **SIZES, "head_dim": 16, "max_position_embeddings": 40960, "rope_theta": 1e6}


@pytest.mark.parametrize("program", ["vllm@0.29.0", "vllm", "sglang", "mlx-lm", "transformers@4.57.6"])
def test_what_is_typed_is_parsed_back(program: str, tmp_path: Path) -> None:
    answer = serving(program, model(tmp_path, QWEN), "yarn(4, 32768)")
    words = shlex.split(answer["command"])
    (keys,) = [answer["overrides"]] if answer["overrides"] else answer["files"].values()
    assert keys["max_position_embeddings"] == 131072
    assert json.dumps(keys) in words or answer["files"]
    assert words[-1:] == ["131072"] or answer["files"]
    module, version = program_of(program)
    table = module.read(laid_over(QWEN, keys), version)
    wanted = of(read(QWEN).with_scaling(YaRN(4, 32768)))
    assert {one.what for one in differences(wanted, table)} <= {"admitted_length", "tuned_length"}


def test_a_config_that_a_program_reads_gets_no_keys(tmp_path: Path) -> None:
    shipped = CONFIGS / "llama-3.1-8b.json"
    for program in ("vllm", "sglang", "llama.cpp", "mlx-lm", "transformers"):
        answer = serving(program, shipped)
        assert answer["overrides"] == answer["files"] == {}
        assert answer["notes"] == []
    newer = {**PLAIN, "rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    edits = serving("mlx-lm", model(tmp_path, newer))["files"]["config.json"]
    assert edits == {"rope_theta": 5e5, "rope_scaling": None, "rope_parameters": None}
    assert serving("vllm", tmp_path)["command"] == f"vllm serve {tmp_path} --max-model-len 64"


PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "published.json").read_text("utf-8"))
PHI = {**PLAIN, "model_type": "phi3", "original_max_position_embeddings": LENGTH, "partial_rotary_factor": 1.0}
BY_PAIR = [
    Linear(2.0),
    Llama3(4.0, LENGTH),
    YaRN(4.0, LENGTH, attention_factor=1.0),
    LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0),
]


@pytest.mark.parametrize("scaling", ["linear(2)", "llama3(4)", "yarn(4, attention_factor=1.0)"])
def test_phi_3_in_mlx(scaling: str, tmp_path: Path) -> None:
    """Which reads the type as "type", and the original length beside the dictionary alone."""
    edits = serving("mlx-lm", model(tmp_path, PUBLISHED["phi-4"]["config"]), scaling)["files"]["config.json"]
    assert edits["rope_scaling"]["type"] == "longrope"
    assert edits["original_max_position_embeddings"] == edits["max_position_embeddings"]


def test_the_factors_that_the_class_of_phimoe_needs_are_written(tmp_path: Path) -> None:
    """As short_mscale and long_mscale, for mlx-lm and for vLLM."""
    config = {key: value for key, value in PHI.items() if key != "partial_rotary_factor"} | {"model_type": "phimoe"}
    written = serving("mlx-lm", model(tmp_path, config), BY_PAIR[-1], max_length=4 * LENGTH)["files"]["config.json"]
    answer = serving("vllm", model(tmp_path, config), BY_PAIR[-1], max_length=4 * LENGTH)
    for entry in (written["rope_scaling"], answer["overrides"]["rope_parameters"]):
        assert [entry["short_mscale"], entry["long_mscale"]] == pytest.approx([(4 / 3) ** 0.5] * 2)
    assert answer["command"].endswith(f"--max-model-len {4 * LENGTH}")


@pytest.mark.parametrize(("scaling", "factor"), [("linear(4)", 1.0), ("yarn(4, 64)", 0.1 * math.log(4) + 1)])
def test_a_scaling_of_phimoe_is_written_as_lists(scaling: str, factor: float, tmp_path: Path) -> None:
    """Although it is not LongRoPE itself; vLLM does not run lists past the original length by default."""
    config = {key: value for key, value in PHI.items() if not key.startswith(("original", "partial"))}
    file = model(tmp_path, {**config, "model_type": "phimoe"})
    written = serving("mlx-lm", file, scaling)["files"]["config.json"]["rope_scaling"]
    for entry in (written, serving("sglang", file, scaling)["overrides"]["rope_parameters"]):
        assert [entry["short_mscale"], entry["long_mscale"]] == pytest.approx([factor] * 2)
    assert "it allows inputs of at most" in serving("vllm", file, scaling)["notes"][0]


@pytest.mark.parametrize("program", ["mlx-lm", "transformers@4.57.6"])
def test_a_key_that_the_edit_removes_has_no_note(program: str, tmp_path: Path) -> None:
    """The note that a program does not read it would be wrong of the edited file."""
    config = {**QWEN, "model_type": "qwen2", "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    answer = serving(program, model(tmp_path, config), "linear(4)")
    assert answer["files"]["config.json"]["rope_parameters"] is None
    assert not any("rope_parameters" in note for note in answer["notes"])


def test_deepseek_without_scaling_in_transformers_4() -> None:
    """Its second number stands beside a factor of its own, which LongRoPE of transformers 4 does not take."""
    answer = serving("transformers@4.57.6", CONFIGS / "deepseek-v3.json", "default")
    assert not answer["notes"][:1] or not answer["notes"][0].startswith(REFUSED)


def test_flags_of_llama_server(tmp_path: Path) -> None:
    file = Path(converted(tmp_path, "qwen.gguf", QWEN, "qwen3"))
    assert serving("llama.cpp", file, "yarn(4, 32768, attention_factor=1.0)")["command"] == (
        f"llama-server -m {file} -c 131072 --rope-scaling yarn --rope-freq-base 1000000 --rope-scale 4 "
        "--yarn-orig-ctx 32768 --override-kv qwen3.rope.scaling.attn_factor=float:0.878248856 "
        "--override-kv qwen3.context_length=int:131072"
    )
    assert serving("llama.cpp", file)["command"] == f"llama-server -m {file} -c 40960"
    longer = serving("llama.cpp", file, max_length=50000)
    assert longer["command"].endswith(" -c 50000 --override-kv qwen3.context_length=int:50000")
    unrounded = serving("llama.cpp", file, "yarn(4, 32768, truncate=False)")
    assert unrounded["command"] == f"llama-server -m {file} -c 131072"
    assert len(unrounded["files"][str(file)]["rope_freqs.weight"]) == 8
    assert unrounded["files"][str(file)]["qwen3.context_length"] == 131072
    assert unrounded["notes"][0].startswith("llama-server has no flag for YaRN(factor=4")
    (note,) = serving("vllm", file)["notes"]
    assert note == "refused: qwen.gguf is a file for llama.cpp; pass the config.json from which it was converted"


def test_a_list_of_factors_is_taken_out_of_the_file() -> None:
    answer = serving("llama.cpp", CONFIGS / "llama-3.1-8b.json", "yarn(16, 8192)")
    assert answer["command"] == "llama-server -m model.gguf -c 131072"
    assert answer["files"]["model.gguf"]["rope_freqs.weight"] is None
    assert "llama-server has no flag that removes rope_freqs.weight" in answer["notes"][0]


def test_what_a_program_does_not_compute_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = model(tmp_path, PLAIN)
    refusals = {
        ("vllm", "dynamic(4)"): "posenc writes only for transformers; use scaling.plan(total_length)",
        ("mlx-lm", "yarn(4, truncate=False)"): "mlx-lm 0.32.2 would compute differently: all: frequencies of",
        ("llama.cpp", "dynamic(4)"): "writes only for transformers",
    }
    for (program, scaling), reason in refusals.items():
        answer = serving(program, folder, scaling)
        assert (answer["overrides"], answer["files"], answer["command"]) == ({}, {}, "")
        (note,) = answer["notes"]
        assert note.startswith(REFUSED)
        assert reason in note
    edits = serving("transformers", model(tmp_path, PARTS), YaRN(8, LENGTH))["files"]["config.json"]
    assert edits["text_config"]["rope_parameters"]["factor"] == 8
    with pytest.raises(UnknownName, match=r"unknown version of vllm '0\.1'"):
        serving("vllm@0.1", folder)
    with pytest.raises(UnknownName, match="unknown scaling 'yarm'"):
        serving("vllm", folder, "yarm(4)")


@pytest.mark.parametrize("program", ["mlx-lm", "llama.cpp"])
def test_no_command_is_printed_if_windows_were_not_asked(program: str, tmp_path: Path) -> None:
    config = {**PLAIN, "model_type": "mistral", "sliding_window": 8, "layer_types": ["sliding_attention"] * 2}
    answer = serving(program, model(tmp_path, config))
    assert answer["command"] == ""
    assert f"{NOT_ASKED}the windows of 'mistral'" in answer["notes"]
    without = serving(program, model(tmp_path, {**config, "sliding_window": None}))
    assert without["command"]
    assert not any("windows of" in note for note in without["notes"])


def test_a_length_that_is_left_out_is_the_trained_one() -> None:
    assert scaling_of("yarn(4)", 8192) == YaRN(4, 8192)
    assert scaling_of("yarn(4, 4096, beta_fast=16)", 8192) == YaRN(4, 4096, beta_fast=16)
    assert scaling_of("linear(2)", 8192) == Linear(2)
    with pytest.raises(InvalidArgument, match="YaRN: too many positional arguments"):
        scaling_of("yarn(4, 1, 1, 1, 'dimension', True, 1, 1, 1, 1)", 8192)


@pytest.mark.parametrize("write", [huggingface.changes, huggingface.write, vllm.write, ModelPositions.with_scaling])
def test_a_scaling_may_be_text_wherever_it_is_written(write: Any) -> None:
    positions = huggingface.read(PLAIN)
    assert write(positions, "yarn(4)") == write(positions, YaRN(4, positions.original_length))
    with (
        pytest.raises(InvalidArgument, match="factor='four' must be a number; write it in digits"),
        annotations_unchecked(),
    ):
        write(positions, "yarn(four)")
    with pytest.raises(InvalidArgument, match="unknown scaling 'yarm'; did you mean 'yarn'"):
        write(positions, "yarm(4)")


def test_a_length_below_one_is_named_as_given(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["inspect", ".", "--for", "vllm", "--max-length", "-5"]).exit_code == 2
    for length in (0, -5):
        notes = serving("vllm", model(tmp_path, PLAIN), max_length=length)["notes"]
        assert notes == [f"refused: max_length={length} must be at least 1"]


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ([], "use the config unchanged"),
        (["a default"], "use the config unchanged\n  note: a default"),
        (["refused: no windows"], "note: refused: no windows"),
        (["not asked: windows"], "note: not asked: windows"),
    ],
)
def test_an_unchanged_config_is_named_before_its_notes(notes: list[str], said: str) -> None:
    assert (
        in_words({"program": "mlx-lm", "version": "1", "command": "", "files": {}, "notes": notes})
        == f"mlx-lm 1\n  {said}"
    )


def test_the_command(tmp_path: Path) -> None:
    folder = model(tmp_path, QWEN)
    words = ["inspect", str(folder), "--for", "vllm@0.33.0, mlx-lm", "--scaling", "yarn(4, 40960)"]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    assert f"vllm 0.33.0\n  vllm serve {folder} --hf-overrides '{{" in run.stdout
    assert re.search(r"\n  in config\.json: \{.*\n  note: trained length in doubt: Qwen3's model card", run.stdout)
    run = CliRunner().invoke(app, [*words[:3], "vllm", "--json"])
    (one,) = json.loads(run.stdout)
    assert list(one) == ["program", "version", "overrides", "files", "command", "notes", "fingerprint"]
    run = CliRunner().invoke(app, [*words[:3], "vllm,llama.cpp", *words[4:], "--json"])
    assert [one["program"] for one in json.loads(run.stdout)] == ["vllm", "llama.cpp"]
    assert run.exit_code == 1  # the conversion of Qwen 3 was not checked
    run = CliRunner().invoke(app, ["inspect", str(folder), "--json"])
    assert list(json.loads(run.stdout)) == ["answer", "facts", "risks", "fingerprint"]
    run = CliRunner().invoke(app, ["inspect", str(folder), "--max-length", "9"])
    assert "need --for" in str(run.exception)
    run = CliRunner().invoke(app, [*words, "--measure"])
    assert "cannot be combined with --for" in str(run.exception)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--measure -o a.svg", "--measure and --output"),
        ("--measure --json", "--measure and --json"),
        ("--fingerprint --json", "--fingerprint and --json"),
        ("--json -o a.svg", "--json and --output"),
        ("--for vllm --fingerprint --json", "--fingerprint and --json"),
        ("--for vllm --fingerprint --scaling yarn(4)", "--scaling, --base and --max-length"),
        ("--for vllm --fingerprint --max-length 9", "--scaling, --base and --max-length"),
    ],
)
def test_no_option_is_ignored(words: str, says: str) -> None:
    refused = CliRunner().invoke(app, ["inspect", str(CONFIGS / "llama-2-7b.json"), *words.split()])
    assert str(refused.exception).startswith(f"{says} cannot be combined")


def test_a_gguf_file_in_words(tmp_path: Path) -> None:
    file = converted(tmp_path, "model.gguf", {**PLAIN, "max_position_embeddings": 256, "rope_parameters": YARN})
    run = CliRunner().invoke(app, ["inspect", file])
    assert run.exit_code == 0, run.output
    lines = run.stdout.splitlines()
    assert lines[0] == "llama: RoPE, base 10,000, YaRN scaling by 4."
    assert {
        "  Trained length 64, inputs of up to 256 allowed.",
        "  These are the checkpoint's pairs; the GGUF file, whose rows are reordered, has interleaved pairs "
        "(2i, 2i+1).",
    } <= set(lines)
    file = converted(tmp_path, "listed.gguf", json.loads((CONFIGS / "llama-3.1-8b.json").read_text()), "gptneox")
    assert re.match(
        r"gptneox: RoPE, base 500,000, a factor per pair\.\n.* half pairs \(i, i\+64\), base 500,000\.\n"
        r"  Trained length not stated, inputs of up to 131,072 allowed\.",
        inspect(file).text(),
    )
    with pytest.raises(InvalidArgument, match="base=10000 is not needed"):
        inspect(file, base=1e4)
