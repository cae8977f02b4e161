"""Scenes: what every painter must agree on is decided once, for every view that there is."""

import base64
import json
import math

import pytest
import torch

from posenc.pictures import draw, wire
from posenc.pictures.colours import LINES
from posenc.pictures.compose import compose, limits
from posenc.pictures.palette import DASHES, ENCODINGS, Scale
from posenc.pictures.scene import Chart, Map
from posenc.pictures.tables import tables
from posenc.pictures.view import Heatmap, Line, Lines, View, counted
from posenc.teaching.views.catalogue import VIEWS
from support.views import heatmap


def test_points_that_stand_apart_are_not_joined() -> None:
    """A layer is no place between two others: the page is told, and the drawing has markers and no line."""
    panel = Lines("layers", (Line("window", torch.tensor([1.0, 2.0])),), counted("layer", 2), "tokens", apart=True)
    view = View("t", (panel,))
    assert wire.view(view)["panels"][0]["apart"]
    (curve,) = draw.draw(view).axes[0].get_lines()
    assert curve.get_linestyle() == "None"
    assert curve.get_marker() not in ("", "None")


def test_words_stand_in_cells_in_the_place_of_numbers() -> None:
    said = heatmap([[1.0, 0.0]], words=(("✓", "–"),))
    assert compose(View("t", (said,)))[0].texts == (("✓", "–"),)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_is_decided_and_json_holds_it_within_its_axes(name: str) -> None:
    answer = VIEWS[name]()
    made, sent = compose(answer), json.loads(json.dumps(wire.view(answer), allow_nan=False))
    assert sent["title"]
    assert len(made) == len(answer.panels) == len(sent["panels"]) >= 1
    for given, panel, drawn in zip(answer.panels, made, sent["panels"], strict=True):
        if isinstance(given, Heatmap) and isinstance(panel, Map):
            assert given.values.shape == (len(given.rows.values), len(given.columns.values))
            assert all(len(axis.labels) in (0, len(axis.values)) for axis in (given.rows, given.columns))
            bar = panel.bar
            known = given.values[~given.values.isnan()]
            assert bool((known >= bar.low - 1e-6).all() and (known <= bar.high + 1e-6).all())
            assert len(bar.ticks) >= 2
            assert all(bar.shown[0] <= value <= bar.shown[1] for value, _ in bar.ticks)
            assert len(base64.b64decode(drawn["codes"])) == panel.painted.numel()
            places = [at for axis in ("rows", "columns") for at, _ in drawn[axis]["ticks"]]
        elif isinstance(panel, Chart):
            assert len(panel.x.ticks) >= 2
            assert len(panel.y.ticks) >= 2
            assert all(curve.colour in LINES for curve in panel.curves)
            assert all(bool(curve.line.values.isfinite().any()) for curve in panel.curves)
            assert not any(bool(curve.line.values.isinf().any()) for curve in panel.curves)
            assert {len(line["y"]) for line in drawn["lines"]} == {len(drawn["x"]["at"])}
            places = [
                *drawn["x"]["at"],
                *(v for line in drawn["lines"] for v in line["y"]),
                *(axis.place(t) for axis in (panel.x, panel.y) for t, _ in axis.ticks),
            ]
        else:
            assert all(vector.colour in LINES for vector in panel.vectors)
            places = [arrow["length"] for arrow in drawn["arrows"]]
        assert all(at is None or 0 <= at <= 1 for at in places)
    cells = [text for panel in made if isinstance(panel, Map) for row in panel.texts for text in row]
    texts = [*cells, *(shown["text"] for shown in sent["readouts"])]
    assert not [text for text in texts if text.strip("−0.") == "" and text.startswith("−")]
    assert all(table["rows"] for table in tables(answer))


def test_a_limit_of_the_view_holds() -> None:
    assert limits(heatmap([[0.5]], limit=1.0)) == (-1.0, 1.0)
    assert limits(heatmap([[0.5]], scale="magnitude", limit=1.0)) == (0.0, 1.0)
    assert limits(heatmap([[math.nan]])) == (-1.0, 1.0)


NEAR, FAR = (heatmap([[value, 1.0]], scale="magnitude", unit="cosine") for value in (0.4, -0.4))
OTHERS = (heatmap([[0.5]]), heatmap([[0.2]], scale="magnitude"), heatmap([[3.0]], unit="nats"))


@pytest.mark.parametrize(
    ("panels", "bars", "limits", "shown"),
    [
        ((NEAR, FAR), [0, 0], (-0.4, 1.0), (-0.4, 1.0)),
        (OTHERS, [0, 1, 2], (-0.5, 0.5), (0.0, 0.5)),
        ((heatmap([[-1.75, 0.0, math.nan]]),), [0], (-1.75, 1.75), (-1.75, 0.0)),
        ((heatmap([[-1.0, 0.5]]),), [0], (-1.0, 1.0), (-1.0, 1.0)),
    ],
    ids=["compared", "of other scales or units", "of one side", "of both sides"],
)
def test_panels_that_are_compared_share_a_bar_that_shows_only_the_side_that_occurs(
    panels: tuple[Heatmap, ...], bars: list[int], limits: tuple[float, float], shown: tuple[float, float]
) -> None:
    drawn = [panel.bar for panel in compose(View("t", panels)) if isinstance(panel, Map)]
    assert [list(dict.fromkeys(drawn)).index(bar) for bar in drawn] == bars
    assert (drawn[0].low, drawn[0].high) == pytest.approx(limits)
    assert drawn[0].shown == pytest.approx(shown)


def test_curves_keep_their_encodings_hand_and_others_take_their_turn() -> None:
    one = torch.ones(2)
    lines = (
        Line(ENCODINGS["rotary"].label, one, "rotary"),
        Line("a", one),
        Line("b", one, "stack(rotary, fox)"),
        Line("c", one, "rotary(base=3)"),
    )
    (chart,) = compose(View("t", (Lines("n", lines, counted("x", 2), "y"),)))
    assert [curve.colour.rstrip("0123456789") for curve in chart.curves] == [
        "encoding-rotary",
        "series-",
        "other-",
        "encoding-rotary",
    ]
    assert chart.curves[1].dash == DASHES[1]


def test_levels_lie_on_the_axis() -> None:
    panel = Lines("n", (Line("l", torch.tensor([0.5, 0.9])),), counted("x", 2), "y", levels=((0.06, "chance"),))
    (chart,) = compose(View("t", (panel,)))
    assert chart.y.place(0.06) is not None


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ([[1.0, 0.0]], [(("1", "0"),)]),
        ([[1.0, 0.0], [1.0, 0.5]], [(("1.0000", "0.0000"),), (("1.0000", "0.5000"),)]),
    ],
)
def test_whole_numbers_are_written_whole_unless_what_they_stand_beside_is_not(
    rows: list[list[float]], texts: list[object]
) -> None:
    made = compose(View("t", tuple(heatmap([row], scale="magnitude") for row in rows)))
    assert [panel.texts for panel in made] == texts  # type: ignore[union-attr]


@pytest.mark.parametrize("values", [[-0.59, 0.33, 1.0], [-0.1, 1.0], [-1.0, 1.0], [0.0, 2.0], [-4.0, -0.5]])
@pytest.mark.parametrize("scale", ["magnitude", "signed"])
def test_a_bars_labels_are_where_its_colours_are(scale: Scale, values: list[float]) -> None:
    """On the page's bar a label at some share names the value whose colour is painted at that share."""
    view = View(
        "t", (Heatmap("m", torch.tensor([values]), counted("r", 1), counted("c", len(values)), scale, "u"),)
    )
    (panel,), (sent,) = compose(view), wire.view(view)["panels"]
    first, last = sent["span"]
    assert sent["unit"] == "u"
    assert [share for share, _ in sent["legend"]][:: len(sent["legend"]) - 1] == [0, 1]
    for (share, _), (value, _) in zip(sent["legend"], panel.bar.legend, strict=True):
        assert first + share * (last - first) == pytest.approx(
            float(wire.codes(torch.tensor(value), panel.bar)), abs=1
        )
