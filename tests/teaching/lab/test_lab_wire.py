"""What travels to the page: codes, fractions and finished texts."""

import math

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.pictures import colours, wire
from posenc.pictures.compose import compose
from posenc.pictures.tables import as_csv, value_at
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View, counted
from posenc.teaching.lab.rooms import find
from support.views import heatmap


def sent(panel: Heatmap) -> list[list[int]]:
    (made,) = compose(View("t", (panel,)))
    return wire.codes(panel.values, made.bar).tolist()  # type: ignore[union-attr]


def test_signed_codes_are_symmetric_and_zero_is_paper() -> None:
    assert sent(heatmap([[-2.0, 0.0, 2.0, 1.0, math.nan]])) == [[0, 127, 254, 190, colours.EMPTY]]


def test_every_code_is_within_half_a_step_of_its_value() -> None:
    values = torch.linspace(-1, 1, 1001)[None]
    panel = Heatmap("h", values, counted("r", 1), counted("c", 1001), "signed")
    back = torch.tensor(sent(panel)).double() / 127 - 1
    # 254 steps over a range of 2: half a step is 1/254, and float32 adds its rounding.
    assert float((back - values.double()).abs().max()) <= 1 / 254 + 1e-6


def test_log_axes_place_powers_evenly() -> None:
    line = Line("l", torch.tensor([1e-4, 1e-2, 1.0, 0.0]))
    x = Axis("p", (1.0, 10.0, 100.0, 1000.0), log=True)
    sent = wire.view(View("t", (Lines("n", (line,), x, "y", y_log=True),)))["panels"][0]
    assert sent["x"]["at"] == [0, 0.33333, 0.66667, 1]
    assert sent["lines"][0]["y"] == [0, 0.5, 1, None]


def test_the_value_under_the_pointer_is_exact() -> None:
    answer = find("heatmap").answer({"width": "8"})
    assert [value_at(answer, 0, 1, 1), value_at(find("picture").answer({}), 1, 1, 1)] == [
        "dimension 1, position 1: 0.540302",
        "row 7, column 5: 117.000000",
    ]
    assert "PE(p)·PE(p+k) 64" in value_at(find("falloff").answer({}), 0, 0, 0)
    with pytest.raises(InvalidArgument, match="must be inside the panel's 8 rows × 64 columns"):
        value_at(answer, 0, 8, 0)
    with pytest.raises(InvalidArgument, match="panel=3 must be less than 1, the number of panels"):
        value_at(answer, 3, 0, 0)


def test_csv_holds_every_value() -> None:
    text = as_csv(find("shift-both").answer({}))
    assert "k at n = 3,-1.27279220" in text
    assert "score (rotated q·k),-1.1" in text


def test_weights_that_vanish_have_no_place_on_a_logarithmic_axis() -> None:
    sent = wire.view(find("weights").answer({"context": "4096"}))["panels"][0]
    steep, flat = sent["lines"][0]["y"], sent["lines"][-1]["y"]
    assert steep[-1] is None
    assert None not in flat[:2000]
