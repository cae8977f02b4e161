"""What travels to the page: codes, fractions and finished texts."""

import base64
import json
import math
from pathlib import Path

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.pictures import colours, wire
from posenc.pictures.compose import compose
from posenc.pictures.tables import as_csv, tables, value_at
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View, counted
from posenc.teaching.lab.rooms import find, stages


def heatmap(values: list[list[float]], **settings: object) -> Heatmap:
    held = torch.tensor(values)
    rows, columns = held.shape
    return Heatmap("h", held, counted("row", rows), counted("column", columns), **{"scale": "signed", **settings})  # type: ignore[arg-type]


def sent(panel: Heatmap) -> list[list[int]]:
    made = compose(View("t", (panel,)))
    return wire.codes(panel.values, made.bars[0]).tolist()


def test_signed_codes_are_symmetric_and_zero_is_paper() -> None:
    assert sent(heatmap([[-2.0, 0.0, 2.0, 1.0, math.nan]])) == [[0, 127, 254, 190, colours.EMPTY]]


def test_every_code_is_within_half_a_step_of_its_value() -> None:
    values = torch.linspace(-1, 1, 1001)[None]
    panel = Heatmap("h", values, counted("r", 1), counted("c", 1001), "signed")
    back = torch.tensor(sent(panel)).double() / 127 - 1
    # 254 steps over a range of 2: half a step is 1/254, and float32 adds its rounding.
    assert float((back - values.double()).abs().max()) <= 1 / 254 + 1e-6


@pytest.mark.parametrize("name", stages())
def test_every_question_answers_in_json_within_its_axes(study: Path, name: str) -> None:
    answer = find(name).answer({})
    sent = json.loads(json.dumps(wire.view(answer), allow_nan=False))
    assert sent["title"]
    assert sent["python"].startswith(("import", "from"))
    assert len(sent["panels"]) == len(answer.panels) >= 1
    for panel in sent["panels"]:
        places: list[float | None] = []
        if panel["kind"] == "heatmap":
            assert len(base64.b64decode(panel["codes"])) % panel["across"] == 0
            if panel["across"] == panel["shape"][1]:  # else a picture is painted in the place of cells
                assert len(base64.b64decode(panel["codes"])) == math.prod(panel["shape"])
            places = [at for axis in ("rows", "columns") for at, _ in panel[axis]["ticks"]]
        elif panel["kind"] == "lines":
            places = [*panel["x"]["at"], *(v for line in panel["lines"] for v in line["y"])]
        else:
            assert all(arrow["length"] <= 1 for arrow in panel["arrows"])
        assert all(at is None or 0 <= at <= 1 for at in places)
    assert all(table["rows"] for table in tables(answer))


def test_log_axes_place_powers_evenly() -> None:
    line = Line("l", torch.tensor([1e-4, 1e-2, 1.0, 0.0]))
    x = Axis("p", (1.0, 10.0, 100.0, 1000.0), log=True)
    sent = wire.view(View("t", (Lines("n", (line,), x, "y", y_log=True),)))["panels"][0]
    assert sent["x"]["at"] == [0, 0.33333, 0.66667, 1]
    assert sent["lines"][0]["y"] == [0, 0.5, 1, None]


def test_the_value_under_the_pointer_is_exact() -> None:
    answer = find("heatmap").answer({"width": "8"})
    assert value_at(answer, 0, 1, 1) == "dimension 1, position 1: 0.540302"
    lines = find("falloff").answer({})
    assert "PE(p)·PE(p+k) 64" in value_at(lines, 0, 0, 0)
    with pytest.raises(InvalidArgument, match="are outside 8 × 64"):
        value_at(answer, 0, 8, 0)
    with pytest.raises(InvalidArgument, match="panel=3 is not one of the 1 panels"):
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
