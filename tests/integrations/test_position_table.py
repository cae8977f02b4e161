"""Position tables hold what a model computes, and two of them differ by name and by error."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.errors import InvalidArgument, PosencError
from posenc.integrations.differences import BLOCK, differences, parting
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.model_positions import softmax_factor
from posenc.integrations.position_table import PositionTable, of
from posenc.scaling import DynamicNTK, Linear
from support.places import CONFIGS

LLAMA = read(CONFIGS / "llama-3.1-8b.json")


def changed(table: PositionTable, **fields: Any) -> PositionTable:
    """The same with these fields of its layers set."""
    return replace(table, layers={name: replace(layer, **fields) for name, layer in table.layers.items()})


def published() -> list[Path]:
    """Published language models, and towers that rotate by rows and columns."""
    towers = [CONFIGS.parent / "field" / f"{name}.json" for name in ("dinov3", "muse-vision")]
    return [*sorted(CONFIGS.glob("*.json")), *towers]


@pytest.mark.parametrize("path", published(), ids=lambda path: path.stem)
def test_a_table_says_what_the_encodings_compute(path: Path) -> None:
    """cos of every channel is what the placed encoding of the layer makes of a vector of ones in its pair."""
    try:
        positions = read(path)
    except PosencError:
        pytest.skip("refused")
    table, encodings = of(positions), positions.encodings(positions.max_length)
    assert table.layer_types == positions.types_by_window
    assert differences(table, of(positions)) == []
    assert json.loads(json.dumps(asdict(table)))["admitted_length"] == positions.max_length
    kinds = dict(zip(table.layer_types, positions.layer_types, strict=True))
    for name, layer in table.layers.items():
        if not layer.frequencies:
            continue
        axes = encodings[kinds[name]].axes
        shape = (axes, -1) if axes > 1 else (-1,)  # text is at the same place of every axis
        at = torch.tensor([0, 1, 777, 2047])
        eye = torch.eye(layer.head_dim)[None, :, None].expand(1, -1, len(at), -1)
        rotated = encodings[kinds[name]].at(at.expand(shape)).rotate(eye, eye)[0][0]
        expected = torch.diagonal(rotated, dim1=0, dim2=2).double()
        assert (layer.cos(at) - expected).abs().max() < 2e-6
        x = (2**0.5 * torch.sin(torch.arange(1.0, layer.head_dim + 1, dtype=torch.float64) ** 2)).float()
        q, k = encodings[kinds[name]].at(torch.tensor([0, 777]).expand(shape)).rotate(*2 * [x.expand(1, 1, 2, -1)])
        factor = softmax_factor(positions.recipes[kinds[name]])
        score = float(q[0, 0, 1] @ k[0, 0, 0]) * factor / (positions.query_dim or layer.head_dim) ** 0.5
        assert layer.score(777) == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("base", [500_000.05, 499_000.0, 5e5])
def test_a_draft_parts_where_it_does(base: float) -> None:
    """Oracle: one position after the other, by math's cosine; past a block of them, in the first, and nowhere."""
    config = {**json.loads((CONFIGS / "llama-3.1-8b.json").read_text()), "max_position_embeddings": 70_000}
    target, draft = (of(read({**config, "rope_theta": theta, "rope_scaling": None})) for theta in (5e5, base))
    both = zip(target.layers["all"].frequencies, draft.layers["all"].frequencies, strict=True)
    apart = [theta for theta in both if theta[0] != theta[1]]
    where = (
        p for p in range(70_000) if any(abs(math.cos(p * one) - math.cos(p * other)) > 1e-4 for one, other in apart)
    )
    want = next(where, None) if apart else None
    text = parting(target, draft, 1e-4)
    assert text.startswith("cos differs by at most") if want is None else text.endswith(f"at position {want:,}")
    assert base != 500_000.05 or (want is not None and want > BLOCK)


def test_layers_of_several_windows_are_types_of_their_own() -> None:
    table = of(read(CONFIGS / "gpt-oss-20b.json"))
    assert {name: layer.window for name, layer in table.layers.items()} == {"all within 128": 128, "all": None}


def test_a_dynamic_scaling_is_planned_for_a_length() -> None:
    positions = LLAMA.with_scaling(DynamicNTK(2.0, 8192))
    short, long = (of(positions, length=length).layers["all"] for length in (8192, 32768))
    assert short.frequencies[1] > long.frequencies[1]


def test_a_scaling_that_is_lost_shows_no_error_at_position_0() -> None:
    table = of(LLAMA)
    lost = of(LLAMA.with_scaling(Linear(1.0)))
    first = differences(table, lost, names=("config.json", "the server"))[0]
    assert first.what == "frequencies"
    assert "by factors up to 8: base 500000, llama3(" in first.text
    assert "in config.json, base 500000, linear(factor=1) in the server" in first.text
    zero, half, once, fourfold = first.errors
    assert [error.position for error in first.errors] == [0, 4096, 8192, 32768]
    assert zero.cos == zero.score == 0
    assert min(half.cos, once.cos, fourfold.cos) > 0.5
    assert str(first).startswith("all: frequencies of ")


def test_float32_of_a_file_is_no_difference() -> None:
    table = of(LLAMA)
    rounded = torch.tensor(table.layers["all"].frequencies).double().tolist()
    assert differences(table, changed(table, frequencies=tuple(rounded))) == []
    off = tuple(theta * (1 + 2e-6) for theta in rounded)
    assert [d.what for d in differences(table, changed(table, frequencies=off))] == ["frequencies"]


def test_positions_are_asked_for() -> None:
    table = of(LLAMA)
    with pytest.raises(InvalidArgument, match=r"positions=\[-1\] must all be 0 or more"):
        differences(table, table, [-1])
