"""Towers that see or hear are measured as they are read, and one that is read wrongly is found out."""

from typing import Any

import pytest
import torch

import posenc
from posenc.integrations.attention_layouts import LAYOUTS
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.measuring.maps import over_a_grid
from support.small_models import check_found_out, check_read, measured


@pytest.mark.parametrize(
    ("model_type", "wrong", "said"),
    [
        (
            "pixtral",
            {"layout": "qwen-vl-vision", "added_table": ()},
            "frequencies of 20 of 32 pairs differ, by factors up to 1.334",
        ),
        (
            "vit",
            {"kind": "learned", "length": "hidden_size"},
            r"the encoding is learned\(num_positions=.* a trained table of 16 rows",
        ),
        (
            "whisper",
            {"sinusoidal": ()},
            r"the encoding is learned\(.* a fixed table of 64 rows",
        ),
        (
            "whisper",
            {"spacing": "paper"},
            "a fixed table of 64 rows that is off by .* from the expected table",
        ),
        (
            "fsmt",
            {"spacing": "paper"},
            "a (trained|fixed) table of 1024 rows that is off by .* from the expected table",
        ),
        (
            "glm4v_vision",
            {"layout": "qwen-vl-vision", "added_table": ()},
            "added table is none in .*, a trained table",
        ),
    ],
)
def test_a_tower_read_wrongly_is_found_out(
    model_type: str, wrong: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_found_out(model_type, wrong, said, monkeypatch)


@pytest.mark.parametrize("family", ["qwen-vl-vision", "pixtral", "sam2"])
def test_rows_and_columns_are_told_apart(family: str) -> None:
    rope = posenc.encoding(LAYOUTS[family].encoding(16), head_dim=16)
    eye = torch.eye(16)[None, :, None].expand(1, 16, 12, 16)
    maps = rope.at(LAYOUTS[family].positions(3, 4)).rotate(eye, eye)[0][0].permute(1, 2, 0).double()
    found = over_a_grid(maps, (3, 4))
    assert found.axes == rope.axis_map.axis_of_pair
    assert found.pairing == rope.pairing
    assert max(found.frequencies) == pytest.approx(1.0, rel=1e-5)


def test_a_decoder_is_measured_by_its_own_tokens_alone() -> None:
    """Not by those that its encoder is given beside a sound, which differ from place to place."""
    found = measured("moonshine")
    places = [layer.place for layer in found.layers]
    assert len({*places}) == len(places)
    check_read(found)


def test_a_map_that_never_changes_turns_nothing() -> None:
    assert over_a_grid(torch.eye(4).double().repeat(6, 1, 1), (2, 3)) is None


def test_a_tower_says_whose_places_it_counts() -> None:
    positions = read(
        {"model_type": "pixtral", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    )
    assert positions.layout == "pixtral"
    assert positions.rotary.get("head_dim") == 64
    table = read({"model_type": "vit", "image_size": [224, 112], "patch_size": 16}).recipes["all"]
    assert (table.get("num_positions"), table.get("columns")) == (14, 7)


def test_layers_of_a_tower_that_see_tiles_are_said_to() -> None:
    noted = read({"model_type": "qwen2_5_vl_vision", "window_size": 112}).assumed
    assert any("some layers see only their tile of 112 pixels per side" in note for note in noted)
