"""A fingerprint is equal for every spelling of the same positions, and changes with every declared field."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import InvalidArgument
from posenc.integrations.fingerprint import IN_WORDS, fingerprint, is_stated
from posenc.integrations.huggingface import assert_positions, read, write
from posenc.integrations.position_table import LayerTable, of
from posenc.integrations.programs import mlx, sglang
from posenc.scaling import NTK, Linear, Llama3, LongRoPE, YaRN
from support.places import CONFIGS

LLAMA = CONFIGS / "llama-3.1-8b.json"
SCALINGS = [
    None,
    Linear(2.0),
    NTK(4.0),
    Llama3(4.0, 8192),
    YaRN(4.0, 8192),
    YaRN(4.0, 8192, attention_factor=1.0, truncate=False),
    LongRoPE((1.0,) * 64, (2.0,) * 64, 8192, 4.0),
]


def of_file(path: Path) -> str:
    return fingerprint(of(read(path)))


@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_every_spelling_has_the_same(scaling: Any) -> None:
    positions = read(json.loads(LLAMA.read_text()))
    older, newer = (write(positions, scaling, max_length=131072, spelling=one) for one in ("v4", "v5"))
    assert older != newer
    assert fingerprint(of(read(older))) == fingerprint(of(read(newer)))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_a_config_written_anew_has_the_same(path: Path) -> None:
    try:
        positions = read(path)
        again = read(write(positions))
    except InvalidArgument:
        pytest.skip("not written")
    assert fingerprint(of(again)) == fingerprint(of(positions))


def test_names_of_layer_types_and_lengths_are_not_in_it() -> None:
    table = of(read(LLAMA))
    layer = table.layers["all"]
    other = replace(
        table, layers={"rotary": layer}, layer_types=("rotary",) * 32, admitted_length=1, tuned_length=2
    )
    assert fingerprint(replace(other, notes=("a note",))) == fingerprint(table)
    assert fingerprint(replace(table, layer_types=("all",) * 31)) != fingerprint(table)


def changed(layer: LayerTable, name: str, amount: int) -> LayerTable:
    """The layer with another value of this field."""
    value = getattr(layer, name)
    other: Any = {
        "frequencies": lambda: (*layer.frequencies[:-1], layer.frequencies[-1] + amount * 2.0**-36),
        "axes": lambda: (*layer.axes[:-1], 1 + amount),
        "pairing": lambda: "interleaved" if value == "half" else "half",
        "encoding": lambda: f"alibi(heads={amount})",
        "query_scale": lambda: f"query-scale(rule=llama4, amount=0.1, floor={amount})",
        "added_table": lambda: f"learned-grid(num_positions={amount})",
    }.get(name, lambda: not value if type(value) is bool else (value or 0) + amount)
    return replace(layer, **{name: other()})


DECLARED = [field.name for field in fields(LayerTable) if field.name not in IN_WORDS]


@given(
    st.sampled_from(DECLARED), st.integers(1, 1000), st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "gemma-3-4b"])
)
def test_every_declared_field_is_in_it(name: str, amount: int, model: str) -> None:
    table = of(read(CONFIGS / f"{model}.json"))
    kind = next(kind for kind, layer in table.layers.items() if layer.frequencies)
    other = replace(table, layers={**table.layers, kind: changed(table.layers[kind], name, amount)})
    assert fingerprint(other) != fingerprint(table)


@pytest.mark.parametrize("name", IN_WORDS)
def test_words_are_not_in_it(name: str) -> None:
    table = of(read(LLAMA))
    layer = replace(table.layers["all"], **{name: "other" if "or" in name else 3.0})
    assert fingerprint(replace(table, layers={"all": layer})) == fingerprint(table)


FROZEN = {
    "llama-3.1-8b": "posenc1-d698ec6f8fea453cfe86659cc1a075fb",
    "gemma-3-4b": "posenc1-db1ecdde4cc47d7aeecb6d96422b6ba6",
    "deepseek-v3": "posenc1-ecb7f61e72b459afdf3a6ea9c8b44e71",
    "gpt-oss-20b": "posenc1-93460bbf3efd8b71e4bae160f1dcb422",
}


def test_the_format_is_frozen() -> None:
    """A release that changes one of these has another format, with another version in front."""
    assert {name: of_file(CONFIGS / f"{name}.json") for name in FROZEN} == FROZEN


def test_short_requests_are_in_it() -> None:
    """A program that uses the long list for every request computes other positions up to the original length."""
    path = CONFIGS / "phi-3-mini-128k.json"
    assert fingerprint(mlx.read(path)) != of_file(path) == fingerprint(sglang.read(path, "0.5.23"))
    assert fingerprint(mlx.read(path)) == fingerprint(replace(of(read(path)), short=None))


def told(*words: str) -> tuple[int, str]:
    run = CliRunner().invoke(app, list(words))
    return run.exit_code, run.stdout.strip()


def test_the_doors(tmp_path: Path) -> None:
    code, line = told("inspect", str(LLAMA), "--fingerprint")
    assert (code, line) == (0, of_file(LLAMA))
    assert is_stated(line)
    assert told("diff", line, str(LLAMA)) == told("diff", str(LLAMA), line) == (0, "the same position settings")
    qwen = str(CONFIGS / "gpt-oss-20b.json")
    assert told("diff", line, qwen) == (1, f"different position settings: theirs has {of_file(Path(qwen))}")
    answer = json.loads(told("diff", qwen, line, "--json")[1])
    assert [one["theirs"] for one in answer["differences"] if one["ours"] == of_file(Path(qwen))] == [line]
    assert told("inspect", str(LLAMA), "--for", "vllm,sglang", "--fingerprint") == (0, f"{line}\n{line}")
    _, answers = told("inspect", str(LLAMA), "--for", "vllm", "--json")
    assert json.loads(answers)[0]["fingerprint"] == line
    assert_positions(LLAMA, line)
    with pytest.raises(AssertionError, match=f"positions differ: expected {line}, but this model has posenc1-"):
        assert_positions(Path(qwen), line)
    for wrong in ("posenc1-12", "posenc2-" + line[8:], "llama"):
        with pytest.raises(AssertionError, match=f"expected {wrong}, but this model has {line}"):
            assert_positions(LLAMA, wrong)
    assert told("diff", str(LLAMA), "posenc1-12")[0] == 1
