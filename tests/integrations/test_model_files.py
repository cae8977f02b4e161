"""What released model files do with positions is what each program's table says, layer by layer.

tests/data/model_files has the answers of ``python -m tools.model_files``; `make programs` asks anew.
"""

import copy
import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import InvalidArgument, PosencError
from posenc.integrations import model_files
from posenc.integrations.differences import differences
from posenc.integrations.huggingface import read
from posenc.integrations.position_table import PositionTable, of
from posenc.integrations.programs import exllamav3, mlx, sglang, transformers, vllm
from posenc.scaling import YaRN
from support.model_files import KEPT, apart, configs, lines
from support.places import ROOT
from support.served import DEEPSEEK, PLAIN

NOTE = model_files.Departure("", (), "", "")
RELEASES = ("vllm-0.29.0", "vllm-0.33.0", "sglang-0.5.15", "sglang-0.5.23")
PERMUTED = "q and k rows are permuted when they are loaded: vllm llama4.py:800, sglang mllama4.py:606"
OLDER = "full layers of a text model alone have the sizes of sliding ones: sglang hf_transformers/config.py:137"
ONE_TABLE = "transformers 5.12.1, by which it is run, rotates every layer by one table: modeling_olmo3.py:272"
EXPLAINED = {
    ("llama4", "pairing"): PERMUTED,
    ("llama4_text in vllm-0.29.0", "pairing"): PERMUTED,
    ("llama4_text in vllm-0.33.0", "pairing"): PERMUTED,
    ("mpt in vllm-0.29.0", "alibi"): "its attention is handed nothing, for which 0.33.0 refuses it",
    ("olmo3 in vllm-0.29.0", "frequencies"): ONE_TABLE,
    ("olmo3 in vllm-0.29.0", "attention_factor"): ONE_TABLE,
    ("gpt_neox in vllm-0.33.0", "softmax_factor"): "its heads do not have the width that head_dim states",
    ("gemma4_text in sglang-0.5.15", "frequencies"): OLDER,
    ("gemma4_text in sglang-0.5.15", "softmax_factor"): OLDER,
}
"""What differs and is no difference, with the released line that decides it."""
BY_HUB_CODE = {
    line["name"]: line["as_type"]
    for line in map(json.loads, (KEPT.parent / "published_configs.jsonl").read_text().splitlines())
    if line.get("as_type")
}


def config_of(name: str) -> dict[str, Any]:
    """A config, by the type whose rules it is read by."""
    config = configs()[name]
    return {**config, "model_type": BY_HUB_CODE.get(name, config["model_type"])}


def table_of(release: str, config: dict[str, Any]) -> PositionTable | None:
    """What the release's program makes of it by posenc; None where that refuses."""
    name, _, version = release.partition("-")
    try:
        table: PositionTable = import_module(f"posenc.integrations.programs.{name}").read(config, version)
    except PosencError:
        return None
    return table


@cache
def answers(release: str) -> dict[str, dict[str, Any]]:
    """The answers of a release, by config."""
    return {line["config"]: line for line in lines(release) if "class" in line}


@cache
def compared(release: str) -> list[tuple[str, str, dict[str, Any], PositionTable]]:
    """Config, type, answer and table of all that both read."""
    every = [(name, config_of(name), answer) for name, answer in answers(release).items()]
    return [(n, c["model_type"], answer, table) for n, c, answer in every if (table := table_of(release, c))]


def answered(release: str, types: tuple[str, ...]) -> list[str]:
    """The configs of these types that a release answered about."""
    return [name for name in answers(release) if config_of(name)["model_type"] in types]


@pytest.mark.parametrize("release", RELEASES)
def test_a_table_is_what_the_model_files_do(release: str) -> None:
    found, types = {}, set()
    for name, model_type, answer, table in compared(release):
        names = (model_type, f"{model_type} in {release}")
        differing = {k: v for k, v in apart(answer, table).items() if not {(n, k) for n in names} & set(EXPLAINED)}
        if answer["admitted"] != table.admitted_length:
            differing["admitted"] = f"{answer['admitted']} in the program, {table.admitted_length} in the table"
        types.add(model_type)
        found.update({name: differing} if differing else {})
    assert found == {}
    assert len(types) >= 40


def wrong(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Answers of an oracle with one fault."""
    if facts.get("window"):
        yield {**facts, "window": facts["window"] + 1}
    if facts.get("scale"):
        yield {**facts, "scale": 2 * facts["scale"]}
    if facts.get("pairing") in ("half", "interleaved") and facts["rotary_dim"] > 2:
        yield {**facts, "pairing": {"half": "interleaved", "interleaved": "half"}[facts["pairing"]]}


@pytest.mark.parametrize("release", ["vllm-0.33.0", "sglang-0.5.23"])
def test_a_fault_of_the_oracle_is_seen(release: str) -> None:
    """A window of one token more, a scale twice as large, other pairs, a layer that does not rotate."""
    seen = 0
    for name, model_type, answer, table in compared(release):
        explained = {kind for kind, _ in EXPLAINED} & {model_type, f"{model_type} in {release}"}
        if name.startswith("deepseek-ai/DeepSeek-V4") or explained:
            continue
        for i, facts in enumerate(answer["layers"]):
            mutants = list(wrong(facts))
            for changed in mutants:
                mutant = {**answer, "layers": [*answer["layers"][:i], changed, *answer["layers"][i + 1 :]]}
                if changed.get("window") and changed["window"] > table.admitted_length:
                    continue
                assert apart(mutant, table), (name, changed)
                seen += 1
            if facts["rotates"]:
                first, *others = facts["layers"]
                still = {**copy.copy(facts), "rotates": False, "layers": [first]}
                rest = [{**facts, "layers": others}] if others else []
                mutant = {**answer, "layers": [*answer["layers"][:i], still, *rest, *answer["layers"][i + 1 :]]}
                assert "encoding" in apart(mutant, table), name
                seen += 1
    assert seen > 300


@pytest.mark.parametrize("departure", model_files.departures(), ids=lambda one: f"{one.program} {one.types[0]}")
def test_each_departure_is_held_by_an_answer(
    departure: model_files.Departure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it an answer differs or is refused, in every release; where the program refuses, it does so too."""
    if departure == replace(
        NOTE, **{name: getattr(departure, name) for name in ("program", "types", "says", "line", "releases")}
    ):
        assert any(answered(release, departure.types) for release in RELEASES)
        return
    releases = [one for one in RELEASES if one.startswith(f"{departure.program}-")]
    releases = [one for one in releases if not departure.releases or one.partition("-")[2] in departure.releases]
    rest = tuple(one for one in model_files.departures() if one != departure)
    for release in releases:
        if departure.refuses:
            name, _, version = release.partition("-")
            given = {name: (config, config.get("text_config", config)) for name, config in configs().items()}
            kept = [
                line
                for line in lines(release)
                if departure in model_files.departing_from(name, version, *given[line["config"]])
            ]
            assert any("refused" in line for line in kept)
            assert departure.mixed or all("refused" in line for line in kept)
            continue
        with_all = {name for name, *_ in compared(release)}
        with monkeypatch.context() as patch:
            patch.setattr(model_files, "departures", lambda: rest)
            names = answered(release, departure.types)
            tables = {name: table for name in names if (table := table_of(release, config_of(name)))}
            apart_names = [name for name, table in tables.items() if apart(answers(release)[name], table)]
            assert apart_names or with_all & {*names} - {*tables}, release
            if "window" in departure.sets:  # every type was asked with a window
                assert {config_of(name)["model_type"] for name in apart_names} == {*departure.types}, release


def what(table: PositionTable, config: dict[str, Any]) -> set[str]:
    return {one.what for one in differences(of(read(config)), table)} - {"admitted_length"}


MINISTRAL = "mistralai/Devstral-Small-2-24B-Instruct"
DISAGREEMENTS = {
    "1 the softmax scale of Kimi K2": [("vllm", "moonshotai/Kimi-K2-Instruct", set())],
    "1 that of Kimi K2.5": [("vllm", "moonshotai/Kimi-K2.5", set()), ("sglang", "moonshotai/Kimi-K2.5", set())],
    "1 in SGLang": [("sglang", "moonshotai/Kimi-K2-Instruct", set())],
    "2 vLLM does not scale the queries of Ministral 3": [("vllm", MINISTRAL, {"query_scale"})],
    "3 SGLang scales them in steps of 16,384": [("sglang", "ministral3, 8192", {"query_scale"})],
    "4 Cohere 2 sees 4,097 tokens": [
        ("vllm", "cohere2 as its class writes it", {"window"}),
        ("sglang", "cohere2 as its class writes it", {"window"}),
        ("sglang", "cohere2_moe as its class writes it", {"window"}),
    ],
    "6 SGLang applies no window": [
        ("sglang", "mistral, window", {"window"}),
        ("sglang", "phi3, window", {"window"}),
        ("sglang", "qwen2, windows", {"window"}),
        ("sglang", "starcoder2", {"window"}),
        ("vllm", "mistral, window", set()),
    ],
    "7 SGLang's base of Olmo 3": [("sglang", "olmo3 as its class writes it", {"frequencies"})],
    "9 sections that a file lacks": [
        ("vllm", "qwen2_5_vl as its class writes it", {"axes"}),
        ("sglang", "Qwen/Qwen3-VL-4B-Instruct", {"axes"}),
        ("vllm", "qwen2_5_vl, sections", set()),
    ],
    "SGLang loads the rows of Llama 4's text model as they are": [
        ("sglang", "llama4_text as its class writes it", {"pairing"}),
        ("sglang", "llama4 as its class writes it", set()),
    ],
    "SGLang scales no frequencies": [
        ("sglang", "gemma, linear", {"frequencies"}),
        ("sglang", "gemma2, yarn", {"frequencies", "attention_factor", "pretrained_length"}),
        ("sglang", "mixtral, yarn", {"frequencies", "attention_factor", "pretrained_length"}),
        ("sglang", "persimmon, llama3", {"frequencies", "pretrained_length"}),
        ("sglang", "phi, llama3", {"frequencies", "pretrained_length"}),
        ("sglang", "stablelm, llama3", {"frequencies", "pretrained_length"}),
        ("sglang", "starcoder2, linear", {"frequencies"}),
        ("vllm", "gemma2, yarn", set()),
    ],
    "transformers reads the factor of what it runs": [
        ("sglang", "gpt_neox, stated factor", set()),
        ("vllm", "olmo2, stated factor", set()),
    ],
    "SGLang passes the rope type of Gemma 4 and its share, and nothing else": [
        ("sglang", "google/gemma-4", set()),
        ("sglang", "gemma4, yarn", {"frequencies", "attention_factor", "pretrained_length"}),
    ],
    "F34 M-RoPE and YaRN": [
        ("vllm", "qwen2_5_vl, sections, YaRN", {"frequencies"}),
        ("sglang", "qwen2_5_vl, sections, YaRN", set()),
    ],
    "windows that are one wider, of a model without any": [("sglang", "smollm3 as its class writes it", set())],
}
"""Of the report of 2026-11-25, by its numbers; 5 and 8 are none."""


@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_disagreements_of_the_report(name: str) -> None:
    for program, config, fields in DISAGREEMENTS[name]:
        given = config_of(config)
        table = {"vllm": vllm, "sglang": sglang}[program].read(given)
        assert what(table, given) == fields, (program, config)
        decided = [note for note in table.notes if ".py" in note and "the same result" not in note]
        assert bool(decided) == bool(fields), decided


def test_heads_whose_width_a_model_file_does_not_read() -> None:
    for program, name in ((sglang, "mixtral, head_dim"), (vllm, "qwen2, head_dim")):
        given = config_of(name)
        table = program.read(given)
        assert {"head_dim", "rotary_dim"} <= what(table, given)
        assert any(note.startswith(f"{table.program} does not read head_dim (") for note in table.notes)
        with pytest.raises(InvalidArgument, match="channels of a head: 64 in the model, 32 in"):
            program.write(read(given))
    assert what(vllm.read(config_of("mixtral, head_dim")), config_of("mixtral, head_dim")) == set()
    assert vllm.read(config_of("olmo2, stated factor"), "0.29.0").layers["all"].attention_factor == 1.25


def test_a_window_that_is_off_is_applied_by_vllm_alone() -> None:
    """Of a family without windows: transformers ignores both keys, vLLM reads sliding_window."""
    config = config_of("apertus, a window that is off")
    assert not any(read(config).windows)
    for version in vllm.PROGRAM.releases.versions:
        table = vllm.read(config, version)
        assert {layer.window for layer in table.layers.values()} == {config["sliding_window"]}
        assert any("vLLM applies sliding_window = 100 to every layer" in note for note in table.notes)
    assert what(sglang.read(config), config) == set()


@pytest.mark.parametrize("program", [vllm, sglang, mlx, exllamav3, transformers])
@pytest.mark.parametrize("kind", ["longrope", "llama3", "yarn", "dynamic"])
def test_a_length_that_is_left_out_is_no_crash(program: Any, kind: str) -> None:
    lists = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    rope = {"rope_type": kind, "rope_theta": 1e4, **(lists if kind == "longrope" else {"factor": 4.0})}
    for config in (
        {**PLAIN, "rope_parameters": rope},
        {"model_type": "gptj", "rope_scaling": rope},
        {**DEEPSEEK, "rope_parameters": rope},
    ):
        given = {key: value for key, value in config.items() if key != "max_position_embeddings"}
        for version in program.PROGRAM.releases.versions:
            with suppress(PosencError):
                program.read(given, version)


def test_a_scaling_is_written_for_what_runs_in_transformers() -> None:
    for version in vllm.PROGRAM.releases.versions:
        keys = vllm.write(read(config_of("olmo2, stated factor")), YaRN(8.0, 2048), version=version)
        assert keys["rope_parameters"]["factor"] == 8


def test_a_scaling_that_a_model_file_ignores_is_not_written() -> None:
    with pytest.raises(InvalidArgument, match=r"SGLang 0\.5\.23 would compute differently: all: frequencies"):
        sglang.write(read(config_of("gemma, linear")), YaRN(4.0, 8192))


@pytest.mark.parametrize(
    ("config", "program", "version", "written"),
    [
        ("qwen3_vl, sections", vllm, "0.33.0", True),
        ("qwen3_vl, sections", vllm, "0.29.0", False),
        ("qwen2_5_vl, sections", vllm, "0.33.0", False),
        ("qwen2_5_vl, sections", sglang, "0.5.23", True),
    ],
)
def test_yarn_beside_sections_is_written_where_the_ramp_begins_right(
    config: str, program: Any, version: str, written: bool
) -> None:
    positions = read(config_of(config))
    if written:
        keys = program.write(positions, YaRN(4.0, 32768), version=version)["text_config"]
        assert (
            keys["rope_parameters"]["mrope_section"]
            == config_of(config)["text_config"]["rope_parameters"]["mrope_section"]
        )
        return
    with pytest.raises(InvalidArgument, match=r"frequencies of 23 of 64 pairs differ.*original_length=131072"):
        program.write(positions, YaRN(4.0, 32768), version=version)


def test_gemma_3_in_sglang_depends_on_the_processor() -> None:
    (note,) = [note for note in sglang.read(config_of("google/gemma-3")).notes if ".py" in note]
    assert note.endswith("on a CPU with AMX, full layers rotate unscaled (sglang/srt/models/gemma3_causal.py:269)")


T5 = ("t5", "umt5")
WITHOUT_T5 = ((vllm, "0.33.0"), (sglang, "0.5.15"), (sglang, "0.5.23"))


@pytest.mark.parametrize(
    ("program", "version", "model_type", "why"),
    [
        *((sglang, "0.5.15", name, "there is no model file, and") for name in ("bamba", "mpt")),
        *((sglang, "0.5.23", name, "there is no model file, and") for name in ("bamba", "mpt")),
        (vllm, "0.33.0", "mpt", "its transformers backend serves only layers"),
        *(
            (program, version, name, "there is no model file, and")
            for program, version in WITHOUT_T5
            for name in T5
        ),
    ],
)
def test_what_a_release_does_not_run_is_refused(program: Any, version: str, model_type: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{re.escape(version)} does not run '{model_type}': {why}"):
        program.read(config_of(model_type if model_type in T5 else f"{model_type} as its class writes it"), version)


@pytest.mark.parametrize(
    ("program", "config", "model_type"),
    [
        (vllm, "llama, linear", ""),
        (sglang, "minimax, heads of 128", ""),  # which SGLang runs by the code of transformers
        (vllm, "minimax, heads of 128", "minimax"),
        (vllm, "bamba as its class writes it", "bamba"),
    ],
)
def test_what_was_not_asked_is_said(program: Any, config: str, model_type: str) -> None:
    said = program.read(config_of(config)).not_asked
    assert said.partition(":")[0] == (f"the model file of {model_type!r}" if model_type else "")


def test_windows_of_the_older_transformers_were_not_asked() -> None:
    config = {**PLAIN, "model_type": "mistral", "sliding_window": 8}
    said = {
        version: transformers.read(config, version).not_asked for version in transformers.PROGRAM.releases.versions
    }
    assert said == {"4.57.6": "the windows of 'mistral'", "5.23.0": ""}


@pytest.mark.parametrize("version", exllamav3.PROGRAM.releases.versions)
def test_smollm_3_without_its_list_of_layers_does_not_run_in_exllamav3(version: str) -> None:
    config = {**PLAIN, "model_type": "smollm3", "no_rope_layer_interval": 2, "pad_token_id": 0}
    with pytest.raises(InvalidArgument, match=rf"{version} does not run 'smollm3': .* add no_rope_layers"):
        exllamav3.read(config, version)
    assert exllamav3.read({**config, "no_rope_layers": [1, 0]}, version).layer_types == ("rotary", "nope")


@pytest.mark.parametrize("version", mlx.PROGRAM.releases.versions)
@pytest.mark.parametrize("stated", [{}, {"position_embedding_type": None}], ids=["missing", "null"])
def test_granite_4_rotates_by_default_in_mlx(version: str, stated: dict[str, Any]) -> None:
    config = {
        **PLAIN,
        "model_type": "granitemoehybrid",
        "layer_types": ["attention"] * 2,
        **stated,
    }
    table = mlx.read(config, version)
    assert what(table, config) == {"encoding"}
    assert any("granitemoehybrid.py:60" in note for note in table.notes)
    stating = {**config, "position_embedding_type": "rope"}
    assert what(mlx.read(stating, version), stating) == set()


def test_gemma_4_keeps_a_last_layer_with_a_window_in_mlx() -> None:
    """transformers' class makes the last layer full, whatever its list says, and every sixth without a list."""
    near, full = "sliding_attention", "full_attention"
    bases = {
        near: {"rope_type": "default", "rope_theta": 1e4},
        full: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
    }
    config = {
        **PLAIN,
        "model_type": "gemma4_text",
        "rope_parameters": bases,
        "sliding_window": 8,
        "rope_theta": None,
        "head_dim": 16,
        "global_head_dim": 32,
        "num_hidden_layers": 3,
        "layer_types": [near, full, near],
    }
    assert read(config).layer_types == (near, full, full)
    table = mlx.read(config)
    assert (table.layer_types, table.layers[near].window) == ((near, full, near), 8)
    assert any("gemma4_text.py:183" in note for note in table.notes)
    ending = mlx.read({**config, "layer_types": [near, near, full]})
    assert (ending.layer_types, ending.notes) == ((near, near, full), ())
    with pytest.raises(InvalidArgument, match="every fifth layer full, not every sixth; add layer_types"):
        mlx.read({key: value for key, value in config.items() if key != "layer_types"})


@pytest.mark.programs
def test_every_departure_of_a_program_that_is_not_run_is_a_line_of_its_released_file() -> None:
    """Of mlx-lm, ExLlamaV3 and transformers 4, of whose model files no answers are kept: by a word of the line."""
    words = {
        "smollm3.py": "no_rope_layers",
        "granitemoehybrid.py": "position_embedding_type",
        "utils.py": "mistral",
        "llama.py": "sliding_attention|args.rope_theta",
        "gemma4_text.py": "layer_types",
        "gpt_oss.py": "rope_scaling",
        "mellum.py": "rope_parameters|linear",
        "exaone_moe.py": "rope_parameters",
        "phi3.py": "original_max_position_embeddings",
        "rope_utils.py": "Unsupported RoPE type|SuScaledRoPE(|num_rotations",
        "modeling_llama.py": "ROPE_INIT_FUNCTIONS",
        "laguna.py": "rope_theta",
        "minicpm3.py": "rope_scaling",
        "ministral3.py": "llama_4_scaling_beta|rope_theta",
        "glm.py": "dims=self.head_dim",
        "qwen2_moe.py": "linear",
        "phimoe.py": "short_factor",
        "gemma3_text.py": "sliding_window_pattern|nn.RoPE(",
        "exaone4.py": "sliding_window_pattern",
        "rope.py": "Unknown rope_type|beta_fast",
        "config.py": "rope_scaling",
        "olmo3.py": "rope_theta",
        "modeling_olmo3.py": 'rope_type="default"',
        "configuration_phi3.py": "len(self.rope_scaling) != 3|original_max_position_embeddings=4096",
        "modeling_rope_utils.py": 'factor <= 1.0|config.rope_theta|"head_dim"',
        "configuration_gpt_oss.py": "rope_scaling",
        "modeling_ministral.py": "head_dim",
    }
    folders = {"mlx": "mlx-lm", "exllamav3": "exllamav3", "transformers": "transformers"}
    found = [departure for departure in model_files.departures() if departure.program in folders]
    for departure in found:
        (versions,) = (
            one.PROGRAM.releases.versions
            for one in (mlx, exllamav3, transformers)
            if departure.program in one.__name__
        )
        release = (departure.releases or versions)[-1]
        file, _, number = departure.line.partition(",")[0].rpartition(":")
        folder = (
            Path(str(distribution("transformers").locate_file("")))
            if release == distribution("transformers").version
            else ROOT / "build" / "programs" / f"{folders[departure.program]}-{release}"
        )
        if not folder.exists():
            pytest.skip("no release here; type: python tools/programs.py")
        line = (folder / file).read_text("utf-8").splitlines()[int(number) - 1]
        assert any(word in line for word in words[Path(file).name].split("|"))
    assert {Path(one.line.partition(":")[0]).name for one in found} == {*words}


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"rope_parameters": {"rope_type": "bailing_mrope", "mrope_section": [2, 3, 3]}}, "M-RoPE"),
        ({"rope_scaling": {"rope_type": "ntk", "mixed_b": 0.25, "factor": 4.0}}, "unknown rope_type 'ntk'"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": [1e4, 1e6]}}, r"rope_theta=\[10000"),
        ({"use_rope_layers": [0]}, "'use_rope_layers'"),
        ({"rotary_emb_base": 5e5}, "'rotary_emb_base'"),
        ({"rotary_pct": 0.5}, "'rotary_pct'"),
    ],
)
@pytest.mark.parametrize("program", [vllm, sglang])
def test_forms_that_are_not_read_are_refused_by_name(program: Any, keys: dict[str, Any], named: str) -> None:
    config = {key: value for key, value in config_of("llama, linear").items() if key != "rope_parameters"}
    base = {} if "rope_parameters" in keys or "rotary_emb_base" in keys else {"rope_theta": 1e4}
    with pytest.raises(InvalidArgument, match=named):
        program.read({**config, **base, **keys})


@pytest.mark.parametrize(
    ("program", "config", "refused"),
    [
        (vllm, "llama, integer factor", "llama': its linear scaling fails if factor is an integer; write factor"),
        (sglang, "llama, integer factor", "llama': its linear scaling fails if factor is an integer; write factor"),
        (sglang, "exaone4, a number as pattern", "exaone4': .* fails if it is a number; write LLLG for 4"),
        (sglang, "exaone4, no pattern", "exaone4': .*; add this key, such as LLLG"),
        (mlx, "exaone4, a number as pattern", "exaone4': .* fails if it is a number; write LLLG for 4"),
        (mlx, "exaone4, no pattern", "exaone4': .*; add this key, such as LLLG"),
    ],
)
def test_a_value_at_which_a_program_fails_is_refused_with_the_fix(program: Any, config: str, refused: str) -> None:
    for version in program.PROGRAM.releases.versions:
        with pytest.raises(InvalidArgument, match=f"{re.escape(version)} does not run '{refused}"):
            program.read(config_of(config), version)


def test_an_integer_factor_is_right_where_transformers_runs_the_model() -> None:
    config = {**config_of("olmo2, stated factor"), "rope_parameters": {"rope_type": "linear", "factor": 4}}
    assert str(vllm.read({**config, "rope_theta": 5e5}).layers["all"].scaling) == "linear(factor=4)"


SIZES = ("layers", "frequencies", "scale", "head_dim", "rotary_dim", "attention_factor", "latent", "window")


def one_of_each_way(release: str) -> list[str]:
    """One config for everything that its classes do, whatever the sizes: half of all configs repeat another."""
    first: dict[str, str] = {}
    for name, answer in answers(release).items():
        ways = [{key: value for key, value in facts.items() if key not in SIZES} for facts in answer["layers"]]
        first.setdefault(repr((answer["class"], ways)), name)
    return list(first.values())


@pytest.mark.programs
@pytest.mark.parametrize(
    "release",
    [
        pytest.param(
            release,
            marks=pytest.mark.skipif(
                not (ROOT / "build" / "programs" / release / "taken").exists(),
                reason="no release here; type: python tools/programs.py",
            ),
        )
        for release in RELEASES
    ],
)
def test_released_model_files_answer_as_kept(release: str) -> None:
    name, _, version = release.partition("-")
    sys.path.insert(0, str(ROOT))
    from tools.model_files.__main__ import process  # type: ignore[import-not-found]

    names = one_of_each_way(release)
    assert len(names) > 60
    anew = [json.loads(line) for line in process(name, version, names).splitlines()]
    assert anew == [answers(release)[name] for name in names]
