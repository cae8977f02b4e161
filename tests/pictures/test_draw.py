"""Exported figures: the same bytes twice, both papers, and errors that say what to type."""

import builtins
import importlib
import math
import sys
from pathlib import Path

import pytest
import torch
from matplotlib.colors import to_hex

from posenc.errors import InvalidArgument, MissingExtra
from posenc.pictures import draw
from posenc.pictures.colours import line
from posenc.pictures.palette import DARK
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View, counted

LENGTHS = Axis("test length", (128.0, 256.0, 512.0), "tokens", log=True)
RISING, LOW, HIGH = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.9, 1.5, 2.0]), torch.tensor([1.1, 2.5, 4.0])
CURVES = (
    Line("sinusoidal", RISING, "sinusoidal", LOW, HIGH),
    Line("learned", RISING + 1, "learned", hollow=True),
    Line("my_module:Mine", RISING * 2, "my_module:Mine"),
)
CHART = Lines("loss", CURVES, LENGTHS, "loss", marks=((128.0, "trained to here"),), levels=((1.5, "gate"),))
SHARES = torch.tensor([[0.1, 0.5], [math.nan, 1.0]])
MAP = Heatmap("share", SHARES, counted("row", 2), counted("column", 2), "magnitude", "share", limit=1.0)
LOSS = View("Loss by length", (CHART, MAP))


@pytest.mark.parametrize("kind", draw.UNDATED)
def test_identical_input_gives_identical_bytes_also_in_a_file_of_a_new_folder(kind: str, tmp_path: Path) -> None:
    first = draw.rendered(draw.draw(LOSS), kind)
    assert first == draw.write(draw.draw(LOSS), tmp_path / "new" / f"a.{kind}").read_bytes()
    assert len(first) > 1000


def test_a_legend_names_curves_levels_and_marks() -> None:
    legend = draw.draw(LOSS).axes[0].get_legend()
    names = ["sinusoidal", "learned", "my_module:Mine", "gate", "trained to here"]
    assert [text.get_text() for text in legend.get_texts()] == names


def test_a_run_that_did_not_converge_has_hollow_markers_on_either_paper() -> None:
    dark = draw.draw(LOSS, DARK)
    first, second = dark.axes[0].get_lines()[:2]
    assert to_hex(dark.get_facecolor()) == DARK.paper
    assert first.get_markerfacecolor() == first.get_color() == line("encoding-sinusoidal", DARK)
    assert second.get_markerfacecolor() == DARK.paper


def test_cells_without_a_value_are_paper_and_others_have_their_number() -> None:
    ax = draw.draw(LOSS).axes[1]
    assert ax.get_images()[0].get_array().mask.tolist() == [[False, False], [True, False]]  # type: ignore[union-attr]
    assert [text.get_text() for text in ax.texts] == ["0.1000", "0.5000", "", "1.0000"]


def test_a_matrix_without_values_is_drawn_blank() -> None:
    empty = Heatmap("none", torch.full((1, 2), math.nan), counted("row", 1), counted("column", 2), "magnitude")
    assert [text.get_text() for text in draw.draw(View("Nothing", (empty,))).axes[0].texts] == ["", ""]


def test_a_format_that_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"a.gif' must end in \.svg, \.png, \.pdf"):
        draw.write(draw.draw(LOSS), tmp_path / "a.gif")


def test_without_matplotlib_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: object) -> object:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "posenc.pictures.draw")
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtra, match=r"matplotlib is not installed; type: pip install 'posenc\[plot\]'"):
        importlib.import_module("posenc.pictures.draw")
