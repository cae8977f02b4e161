"""Reference vectors: a port that was written from their page passes, and each of its mistakes is named."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import InvalidArgument
from posenc.integrations import position_table
from posenc.integrations.fingerprint import fingerprint
from posenc.integrations.huggingface import changes, read, write
from posenc.integrations.kit import kit
from posenc.integrations.vectors import FORMAT, Vectors, assert_vectors, load, vectors
from posenc.scaling import (
    NTK,
    Default,
    DynamicNTK,
    Linear,
    Llama3,
    LongRoPE,
    PerPair,
    Proportional,
    YaRN,
)
from support.stranger import Engine, Engines

SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 4096}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}


def llama(**more: Any) -> dict[str, Any]:
    return {"model_type": "llama", **SIZES, "rope_theta": 5e5, **more}


ALL: list[Any] = [
    Default(),
    Linear(2.0),
    NTK(2.0),
    NTK(2.0, form="fixed"),
    DynamicNTK(2.0, 4096),
    YaRN(4.0, 4096),
    YaRN(4.0, 4096, attention_factor=1.0),
    YaRN(4.0, 4096, beta_fast=16.0, beta_slow=2.0),
    YaRN(4.0, 4096, mscale=0.7, mscale_all_dim=1.0),
    YaRN(4.0, 4096, truncate=False),
    YaRN(4.0, 4096, ramp="rotations"),
    Llama3(8.0, 1024),
    LongRoPE((1.0,) * 32, tuple(1 + i / 8 for i in range(32)), 4096, 4.0),
    PerPair(tuple(1 + i / 8 for i in range(32)), 1.2),
    Proportional(0.25),
]


@pytest.mark.parametrize("scaling", ALL, ids=str)
def test_a_stranger_passes(scaling: Any, tmp_path: Path) -> None:
    """By the page alone, of the file alone: no config, no posenc."""
    ending = "json" if isinstance(scaling, YaRN) else "safetensors"
    file = vectors(read(llama()).with_scaling(scaling), total_length=16384).save(tmp_path / f"rope.{ending}")
    expected = load(file)
    engine = Engine(expected.header["layers"]["all"])
    assert_vectors(engine.rotate, file)
    assert engine.a == pytest.approx(expected.header["layers"]["all"]["attention_factor"])
    cos, sin = engine.tables(expected.arrays["all.positions"])
    twice = {"cos_half": np.tile(cos, 2), "sin_interleaved": np.repeat(sin, 2, -1)}
    assert_vectors(
        {"cos": cos, "sin": sin, "cos_sin": np.hstack((cos, sin)), "inv_freq": engine.theta, **twice}, file
    )


@pytest.mark.parametrize(
    "scaling",
    [pytest.param(one, marks=[] if one in (Default(), Llama3(8.0, 1024)) else pytest.mark.slow) for one in ALL],
    ids=str,
)
def test_a_stranger_with_the_base_pairing_or_factor_changed_fails(scaling: Any) -> None:
    expected = vectors(read(llama()).with_scaling(scaling), total_length=16384)
    layer = expected.header["layers"]["all"]
    rope = layer["parameters"]
    factor, attention_factor = rope.get("factor", 1.0), layer["attention_factor"]
    wrong: list[dict[str, Any]] = [
        {"rope_theta": rope["rope_theta"] / 2},
        {"pairing": "interleaved"},
        *([{"factor": 2 * factor}] if factor > 1 and "long_factor" not in rope else []),
        *([{"attention_factor": 0.9 * attention_factor}] if attention_factor != 1 else []),
        *([{"beta_fast": 24.0, "beta_slow": 4.0}] if rope["rope_type"] == "yarn" else []),
    ]
    for instead in wrong:
        with pytest.raises(AssertionError, match="is off by"):
            assert_vectors(Engine(layer, **instead).rotate, expected)


@pytest.mark.parametrize(
    ("instead", "cause"),
    [
        ({"rope_theta": 1e4}, "its base is 10000 instead of 500000"),
        ({"rope_theta": 2.5e5}, "its base is 250000 instead of 500000"),
        ({"pairing": "interleaved"}, "rotates channels (2i, 2i+1) instead of (i, i+32)"),
        ({"factor": 8.0}, "its factor is 8 instead of 4"),
        pytest.param(
            {"factor": 8.0, "attention_factor": 1.0},
            "its factor is 8 instead of 4, and its attention factor is 1 instead of 1.13863",
            marks=pytest.mark.slow,
        ),
        ({"ramp": "rotations"}, "its ramp is rotations instead of dimension"),
        ({"attention_factor": 1.0}, "its attention factor is 1 instead of 1.13863"),
        ({"rope_type": "default"}, "omits the model's yarn(factor=4, original_length=4096"),
        (
            {"rope_type": "default", "rope_theta": 1e4},
            "its base is 10000 instead of 500000, and omits",
        ),
        ({"original_max_position_embeddings": 16384}, "its original_length is 16384 instead of 4096"),
    ],
    ids=str,
)
def test_a_strangers_mistake_is_named(instead: dict[str, Any], cause: str) -> None:
    expected = vectors(read(llama(rope_scaling=YARN)))
    engine = Engine(expected.header["layers"]["all"], **instead)
    with pytest.raises(AssertionError, match=re.escape(cause)):
        assert_vectors(engine.rotate, expected)
    if len(instead) == 1 and "pairing" not in instead:  # a search for two mistakes takes seconds
        cos, sin = engine.tables(expected.arrays["all.positions"])
        with pytest.raises(AssertionError, match=re.escape(cause)):
            assert_vectors({"cos": cos, "sin": sin}, expected)


def test_every_word_of_a_header_and_array_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "vectors.md").read_text("utf-8")
    model = vectors(read(llama(rope_scaling=YARN)), source={"repository": "a", "path": "b", "commit": "c"})
    (layer,) = model.header["layers"].values()
    names = {*model.header, *layer, *(name.removeprefix("all.") for name in model.arrays)}
    assert names | {"arrays"} == {
        word for row in re.findall(r"^\| (`.*?) \|", page, re.M) for word in re.findall(r"`(\w+)`", row)
    } - {"rope_type", "default", "linear", "yarn", "llama3", "longrope", "proportional"}
    rows = re.findall(r"^\| (`.*?`) \| (int64|float32|float64) \((.*?)\) \|", page, re.M)
    sizes = {"A": 1, "T": 6, "P": 32, "2P": 64, "D": 64}
    assert {
        name: (f"torch.{dtype}", [sizes[size] for size in shape.split(", ")])
        for words, dtype, shape in rows
        for name in re.findall(r"`(\w+)`", words)
    } == {k.removeprefix("all."): (str(one.dtype), list(one.shape)) for k, one in model.arrays.items()}
    assert FORMAT in page


def test_a_port_that_rotates_by_one_axis_is_named() -> None:
    expected = vectors(
        read(
            llama(
                model_type="qwen3_vl_text",
                head_dim=64,
                rope_scaling={"mrope_section": [12, 10, 10], "mrope_interleaved": True},
            )
        )
    )
    assert expected.arrays["all.positions"].shape[0] == 3
    assert_vectors(Engine(expected.header["layers"]["all"]).rotate, expected)
    with pytest.raises(AssertionError, match="its pairs use one axis instead of 3 axes"):
        assert_vectors(Engine(expected.header["layers"]["all"], axes=[0] * 32).rotate, expected)
    pixtral = read({"model_type": "pixtral", "hidden_size": 256, "num_attention_heads": 4})
    assert_vectors(Engines(vectors(pixtral).header).rotate, vectors(pixtral))


def test_transformers_own_tables_pass_and_float32_is_bit_for_bit() -> None:
    llama_module = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    config = llama(rope_parameters={**YARN, "rope_theta": 5e5}, max_position_embeddings=16384)
    rotary = llama_module.LlamaRotaryEmbedding(
        LlamaConfig(**{k: v for k, v in config.items() if k != "rope_theta"})
    )
    expected = vectors(read(config), [0, 1, 4095, 16383], phases="float32")
    cos, sin = rotary(torch.zeros(1), expected.arrays["all.positions"])
    assert_vectors({"cos_half": cos[0], "sin_half": sin[0]}, expected)
    assert torch.equal(rotary.inv_freq.double(), expected.arrays["all.inv_freq"])


PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "published.json").read_text("utf-8"))


def test_twenty_published_configs_have_vectors() -> None:
    assert len(PUBLISHED) == 20
    for model in PUBLISHED.values():
        source, config = model["source"], model["config"]
        assert source.keys() == {"repository", "path", "commit"}
        assert re.fullmatch("[0-9a-f]{40}", source["commit"])
        expected = vectors(read(config), source=source)
        assert expected.header["source"] == source
        assert_vectors(Engines(expected.header).rotate, expected)


@pytest.mark.parametrize(
    "alone", [{"mscale": 0.7}, {"mscale_all_dim": 0.7}, {"mscale": 0.7, "mscale_all_dim": 0.0}]
)
def test_one_number_alone_leaves_the_attention_factor_of_yarn(alone: dict[str, float]) -> None:
    """As transformers computes it; DeepSeek's code reads mscale_all_dim alone for its scores.

    Devstral 2 states a second number of 0.
    """
    given = llama(rope_scaling={**YARN, **alone})
    positions = read(given)
    own = ROPE_INIT_FUNCTIONS["yarn"](CONFIG_MAPPING["llama"].from_dict(given))[1]
    assert vectors(positions).header["layers"]["all"]["attention_factor"] == own == pytest.approx(1.1386, abs=1e-4)
    assert any("alone" in note for note in positions.assumed)


def test_a_length_chooses_the_list_of_longrope() -> None:
    model = read(llama()).with_scaling(LongRoPE((1.0,) * 32, (4.0,) * 32, 4096, 4.0))
    short, long = (vectors(model, [0, 1], total_length=n).arrays["all.rope_freqs"] for n in (4096, 4097))
    assert set(short.tolist()) == {1.0}
    assert set(long.tolist()) == {4.0}


def test_layers_that_do_not_rotate_are_in_the_header_alone() -> None:
    config = {**llama(), "model_type": "smollm3", "no_rope_layers": [1, 0], "num_key_value_heads": 4}
    model = vectors(read(config))
    assert model.header["layer_types"] == ["rotary", "nope"]
    assert model.header["layers"]["nope"] == {"encoding": "nope"}
    assert {name.split(".")[0] for name in model.arrays} == {"rotary"}


BLOOM = {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2}
REFUSED: list[tuple[Callable[[Vectors, Path], object], str]] = [
    (
        lambda expected, _: assert_vectors({"cosine": []}, expected),
        r"theirs has \['all.cosine'\]; pass one or more of \['all.inv_freq'",
    ),
    (lambda expected, _: assert_vectors({}, expected), "theirs has no arrays"),
    (
        lambda expected, _: assert_vectors({"cos": torch.zeros(2, 3)}, expected),
        r"all.cos has shape \(2, 3\), but the file has \(6, 32\)",
    ),
    (
        lambda expected, _: assert_vectors({"cos": 1.001 * expected.arrays["all.cos"]}, expected),
        "all.cos is off by 0.001",
    ),
    (lambda expected, folder: expected.save(folder / "rope.npz"), "must end in .json or .safetensors"),
    (lambda _, folder: load(folder / "other.json"), "is not a 'posenc-vectors 1' file"),
    (lambda *_: vectors(read(BLOOM)), "model_type 'bloom' has no rotary layers"),
    (lambda _, folder: load(folder / "none.json"), "none.json cannot be read .*; pass a file of reference vectors"),
    (lambda *_: load(__file__), "is not JSON .*; pass a file of reference vectors"),
    (lambda *_: vectors(llama()), r"positions is .*; expected ModelPositions; pass huggingface.read\(config\)"),
    (lambda _, folder: kit(llama(), folder), "positions is .*; expected ModelPositions"),
    (lambda *_: write(llama(), "yarn(4)"), "positions is .*; expected ModelPositions"),
    (lambda *_: changes(llama(), "yarn(4)"), "positions is .*; expected ModelPositions"),
    (lambda *_: position_table.of(llama()), "positions is .*; expected ModelPositions"),
    (lambda *_: fingerprint(read(llama())), r"table is ModelPositions.*; pass position_table.of"),
    (lambda *_: position_table.of(read(llama()), length=-1), "^length=-1 must be at least 1"),
    (lambda *_: vectors(read(llama()), total_length=-1), "total_length=-1 must be at least 1"),
    (lambda *_: vectors(read(llama()), [1.5]), "at=1.5 must be an integer"),
    (lambda *_: read(llama()).with_scaling(YaRN), "scaling is <class .*; expected a scaling, such as 'yarn"),
    (lambda *_: read(llama(), base=1e4), "base=10000 has no effect.*; omit base"),
    (lambda *_: read(CONFIG_MAPPING["llama"]), "config is a type; expected a config object"),
    (lambda *_: vectors(read(llama()), [-1]), r"positions=\[-1\] must have at least one entry, and all"),
]


@pytest.mark.parametrize(("act", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_refused(act: Callable[[Vectors, Path], object], message: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises((InvalidArgument, AssertionError), match=message):
        act(vectors(read(llama())), tmp_path)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(llama(model_type="somebodys_llama")))
    words = f"vectors {tmp_path} --as-type llama --scaling yarn(4,4096) --positions 0,1,4095".split()
    done = CliRunner().invoke(app, [*words, "--phases", "float32", "-o", str(tmp_path / "rope.json")])
    assert done.exit_code == 0, done.output
    assert "12 arrays" in done.output
    assert_vectors(Engines(load(tmp_path / "rope.json").header).rotate, tmp_path / "rope.json")
    again = vectors(read(llama()).with_scaling(YaRN(4, 4096)), [0, 1, 4095], phases="float32")
    assert load(tmp_path / "rope.json").header == json.loads(json.dumps(again.header))
    assert CliRunner().invoke(app, [*words, "--total-length", "0", "-o", str(tmp_path / "0.json")]).exit_code == 2
    wrong = CliRunner().invoke(app, [*words[:-1], str(2**63 - 1), "-o", str(tmp_path / "rope.json")])
    assert f"--positions '{2**63 - 1}' must be whole numbers from 0 to 2147483647" in str(wrong.exception)
