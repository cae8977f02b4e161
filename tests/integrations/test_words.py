"""Every field of a position table is told: its value by inspect, and by diff a line with the error of it alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from posenc.integrations.differences import differences
from posenc.integrations.huggingface import read
from posenc.integrations.inspection import inspect
from posenc.integrations.position_table import LayerTable, PositionTable, of
from posenc.integrations.words import PHRASES, TABLE, sentences
from support.places import CONFIGS

MODELS = (
    *("llama-3.1-8b", "gemma-3-4b", "deepseek-v3", "gpt-oss-20b", "phi-3-mini-128k", "smollm3-3b", "qwen2-vl-7b"),
    *("gpt2", "bloom-7b1"),
)
POSITIONS = (0, 1, 100, 4096)


@dataclass(frozen=True)
class Sample:
    """A value that a field does not have in any of the models.

    Args:
        value: of the field.
        says: what inspect then says, and does not say without it.
        around: what both tables have besides.
        along: fields that only go together with this one.
    """

    value: Any
    says: str
    around: Mapping[str, Any] = field(default_factory=dict)
    along: Mapping[str, Any] = field(default_factory=dict)


ROTATING = of(read(CONFIGS / "llama-3.1-8b.json")).layers["all"]


def samples(layer: LayerTable) -> dict[str, Sample]:
    """One for every field of a layer that rotates."""
    half, other = len(layer.frequencies) // 2, "half" if layer.pairing == "interleaved" else "interleaved"
    bare = {name: getattr(LayerTable(), name) for name in PHRASES} | {"encoding": "nope"}
    slower, tiny = tuple(theta / 3 for theta in layer.frequencies), (1e-9,) * len(layer.frequencies)
    cut = {name: getattr(layer, name)[:half] for name in ("frequencies", "float32", "unscaled", "axes")}
    dealt = tuple(i % 3 for i in range(2 * half))
    shares = ", ".join(str(dealt.count(axis)) for axis in range(3))
    return {
        "encoding": Sample("alibi(heads=8)", "ALiBi: 8 heads", around=bare),
        "base": Sample(12345.0, "base 12,345"),
        "scaling": Sample("linear(factor=3.5)", "linear(factor=3.5)"),
        "frequencies": Sample(slower, f"from {6 * np.pi / layer.frequencies[0]:.4g} to"),
        "float32": Sample(slower, ""),  # the frequencies once more
        "unscaled": Sample(tiny, f" 0 of {2 * half} pairs complete a turn"),
        "attention_factor": Sample(1.75, "Attention factor 1.75"),
        "own_attention_factor": Sample(1.625, "scaling's default is 1.62"),
        "softmax_factor": Sample(1.53125, "is multiplied by 1.531"),
        "softmax_origin": Sample("somebody's key", "(somebody's key)", around={"softmax_factor": 1.5}),
        "pairing": Sample(other, "(2i, 2i+1)" if other == "interleaved" else f"(i, i+{2 * half})"),
        "head_dim": Sample(999, "999 channels of a head rotate", around={"query_dim": None}),
        "rotary_dim": Sample(2 * half, f"the first {2 * half} of", along=cut),
        "query_dim": Sample(999, "of 999 channels of a head", around={"query_dim": 998}),
        "axes": Sample(dealt, f"3 axes, in interleaved sections of {shares}"),
        "backwards": Sample(True, "rotate backwards"),
        "signed": Sample(True, "may be negative"),
        "window": Sample(78, "itself and the 77 before it"),
        "window_after": Sample(55, "the 77 before it and the 55 after it", around={"window": 78}),
        "chunk": Sample(4321, "its chunk of 4,321"),
        "query_scale": Sample("query-scale(rule=llama4, amount=0.1, floor=8191)", "floor 8191"),
        "softcap": Sample(37.0, "capped at ±37 by tanh"),
        "sinks": Sample(True, "a sink in its softmax", around={"sinks": False}),
        "added_table": Sample("learned-grid(num_positions=7, columns=9, width=8, tables=grid)", "table of 7×9"),
    }


WITHOUT_ROTATION = (
    *("encoding", "softmax_factor", "softmax_origin", "window", "window_after", "chunk", "query_scale", "softcap"),
    *("sinks", "added_table"),
)
"""The fields of layers that do not rotate; the others only come with rotation."""


def every_field(model: str) -> Iterator[tuple[PositionTable, str, str, Sample, LayerTable]]:
    """Every field of every layer type: the table, both names, the sample, and what is around it."""
    table = of(read(CONFIGS / f"{model}.json"))
    rotating = next((layer for layer in table.layers.values() if layer.frequencies), ROTATING)
    for name, layer in table.layers.items():
        for what, sample in samples(layer if layer.frequencies else rotating).items():
            if layer.frequencies or what in WITHOUT_ROTATION:
                yield table, name, what, sample, replace(layer, **sample.around)


def put(table: PositionTable, name: str, layer: LayerTable) -> PositionTable:
    return replace(table, layers={**table.layers, name: layer})


def cos(layer: LayerTable, position: int) -> np.ndarray:
    """What cos multiplies every channel by."""
    pairs = layer.attention_factor * np.cos(position * np.array(layer.frequencies))
    rotated = np.repeat(pairs, 2) if layer.pairing == "interleaved" else np.tile(pairs, 2)
    return np.pad(rotated, (0, layer.head_dim - len(rotated)), constant_values=1.0)


def score(layer: LayerTable, distance: int) -> float:
    x = np.sqrt(2) * np.sin(np.arange(1, layer.head_dim + 1, dtype=np.float64) ** 2)
    multiplied = cos(layer, distance)
    multiplied[: 2 * len(layer.frequencies)] *= layer.attention_factor
    return float(layer.softmax_factor * (x**2 * multiplied).sum() / np.sqrt(layer.query_dim or layer.head_dim))


def errors(one: LayerTable, other: LayerTable) -> list[tuple[float, float]]:
    """The largest error of cos and the difference of the score, at every position."""
    return [
        (float(np.abs(cos(one, p) - cos(other, p)).max()), abs(score(one, p) - score(other, p))) for p in POSITIONS
    ]


def named(value: object) -> set[tuple[type, str]]:
    """The fields of a value and of all that it holds."""
    if isinstance(value, Mapping):
        return set().union(*map(named, value.values()))
    if not is_dataclass(value):
        return set()
    names = [f.name for f in fields(value)]
    return {(type(value), name) for name in names}.union(*(named(getattr(value, name)) for name in names))


def test_every_field_has_a_phrase_and_a_sample() -> None:
    table = of(read(CONFIGS / "llama-3.1-8b.json"))
    phrases = {(LayerTable, name) for name in PHRASES} | {(PositionTable, name) for name in TABLE}
    assert named(table) == phrases
    assert set(samples(table.layers["all"])) == set(PHRASES)


@pytest.mark.parametrize("model", MODELS)
def test_inspect_says_the_value_of_every_field(model: str) -> None:
    for table, name, what, sample, layer in every_field(model):
        before, after = (
            "\n".join(sentences(put(table, name, given)))
            for given in (layer, replace(layer, **{what: sample.value, **sample.along}))
        )
        assert not sample.says or after.count(sample.says) == before.count(sample.says) + 1, (name, what)


@pytest.mark.parametrize("model", MODELS)
def test_diff_names_every_field_with_its_error_alone(model: str) -> None:
    for table, name, what, sample, layer in every_field(model):
        changed = replace(layer, **{what: sample.value, **sample.along})
        found = differences(put(table, name, layer), put(table, name, changed), POSITIONS)
        assert [(d.what, d.layer_type) for d in found] == [(what, name)] * bool(PHRASES[what].differs), (name, what)
        assert all(PHRASES[what].differs.rstrip(":") in str(difference) for difference in found), (name, what)
        applies = layer.frequencies and what not in ("encoding", "head_dim", "query_dim")
        wanted = errors(layer, changed) if found and applies else []
        if not any(map(any, wanted)):
            assert "off by" not in "".join(map(str, found)), (name, what)
            continue
        given = [(error.cos, error.score) for error in found[0].errors]
        assert np.allclose(given, wanted, rtol=1e-9, atol=1e-11), (name, what)
        worst = max(range(len(POSITIONS)), key=lambda at: wanted[at])
        off = f"cos off by {wanted[worst][0]:.2g}" if wanted[worst][0] else f"a score off by {wanted[worst][1]:.2g}"
        assert f"{off}{'' if wanted[worst][0] else ' nats'} at position {POSITIONS[worst]:,}" in str(found[0])


def test_two_differences_have_an_error_each() -> None:
    table = of(read(CONFIGS / "llama-3.1-8b.json"))
    layer = table.layers["all"]
    alone = {"attention_factor": 1.25, "pairing": "interleaved"}
    found = differences(table, put(table, "all", replace(layer, **alone)), POSITIONS)
    assert [d.what for d in found] == ["pairing", "attention_factor"]
    for difference in found:
        wanted = errors(layer, replace(layer, **{difference.what: alone[difference.what]}))
        assert np.allclose([(e.cos, e.score) for e in difference.errors], wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("what", "value", "says"),
    [
        ("pretrained_length", 12345, "Trained length 12,345"),
        ("tuned_length", 23456, "tuned for 23,456"),
        ("admitted_length", 345678, "up to 345,678 allowed"),
        ("layer_types", ("all",) * 33, "33 layers"),
        ("layout", "dinov3", "layout dinov3"),
        ("program", "vllm 9.9", "Computed by vllm 9.9."),
        ("not_asked", "its windows", "Not asked: its windows."),
    ],
)
def test_fields_of_the_whole_model(what: str, value: Any, says: str) -> None:
    table = of(read(CONFIGS / "llama-3.1-8b.json"))
    changed = replace(table, **{what: value})
    before, after = ("\n".join(sentences(given)) for given in (table, changed))
    assert says in after
    assert says not in before
    assert [d.what for d in differences(table, changed)] == [what] * (what not in ("program", "not_asked"))


def test_the_type_and_the_notes_are_told() -> None:
    inspection = inspect(CONFIGS / "falcon-7b.json")
    assert inspection.answer.startswith(f"{inspection.table.model_type}: ")
    assert inspection.table.notes
    assert all(note in inspection.text() for note in inspection.table.notes)


@pytest.mark.parametrize(
    ("scaling", "says"),
    [("proportional(fraction=0.5)", "2 do not."), (None, "2 rotate too slowly to be measured, or not at all.")],
)
def test_measured_pairs_without_a_frequency_may_be_slow(scaling: str | None, says: str) -> None:
    layer = LayerTable(
        scaling=scaling, frequencies=(1.0, 0.1, 0.0, 0.0), pairing="half", head_dim=8, rotary_dim=8, base=None
    )
    if scaling is not None:
        layer = replace(layer, base=1e4, unscaled=(1.0, 0.1, 0.01, 0.001))
    line = sentences(PositionTable("llama", {"all": layer}, ("all",), None, 0, 0))[0]
    assert says in line.replace(", base 10,000", "")
