"""Views as JSON with colour codes, fractions, ticks and labels, so that a page only has to draw pixels.

Every position is a fraction of its axis, from 0 at the left or bottom to 1 at the right or top.
"""

import base64
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from posenc.pictures.colours import EMPTY
from posenc.pictures.compose import compose, tick_text
from posenc.pictures.numbers import readout
from posenc.pictures.scene import AxisScale, Bar, Chart, Disc, Map, Vector
from posenc.pictures.tables import value_at
from posenc.pictures.view import View


def view(answer: View) -> dict[str, Any]:
    """Return everything that a page shows for a view."""
    return {
        "title": answer.title,
        "panels": [SENT[type(panel)](panel) for panel in compose(answer)],
        "readouts": [{"name": name, "text": readout(value)} for name, value in answer.readouts.items()],
        "python": answer.python,
    }


PROBED, DRAWN = 130, 1_100
"""A saved page describes the values of a line if the line has at most ``PROBED`` points, and draws at most
``DRAWN`` points of a line.
"""


def alone(answer: View) -> dict[str, Any]:
    """Return everything that a page without a server can show, including the texts that appear at the pointer.

    If a line has more than ``DRAWN`` points, which would be less than a pixel apart, only every n-th point is kept.
    """
    sent = view(answer)
    for i, shown in enumerate(sent["panels"]):
        points = len(shown["x"]["at"]) if shown["kind"] == "lines" else 0
        if 0 < points <= PROBED:
            shown["probe"] = [value_at(answer, i, 0, column) for column in range(points)]
        if points > DRAWN:
            every = -(-points // DRAWN)
            shown["x"]["at"] = shown["x"]["at"][::every]
            for line in shown["lines"]:
                line |= {key: line[key] and line[key][::every] for key in ("y", "low", "high")}
    return sent


def codes(values: Tensor, bar: Bar) -> Tensor:
    """Return values as uint8: 0 … 254 over the scale, 255 for NaN."""
    steps = EMPTY - 1
    # float32 is 2^17 times finer than a step. The exact values on the page come from the view itself.
    places = values.to(torch.float32).sub(bar.low).mul_(steps / (bar.high - bar.low)).clamp_(0, steps)
    return places.round_().nan_to_num_(EMPTY).to(torch.uint8)


def _heatmap(panel: Map) -> dict[str, Any]:
    heatmap, bar = panel.heatmap, panel.bar
    steps = (EMPTY - 1) / (bar.high - bar.low)
    both, marked = heatmap.marked_rows and heatmap.marked_columns, heatmap.marked_rows or heatmap.marked_columns
    down = panel.rows.label == "position" and panel.columns.label != "position"
    return {
        "kind": "heatmap",
        "name": heatmap.name,
        "scale": heatmap.scale,
        "shape": list(heatmap.values.shape),
        "codes": base64.b64encode(codes(panel.painted, bar).contiguous().numpy().tobytes()).decode(),
        "across": panel.painted.shape[1],
        "rows": _axis(panel.rows),
        "columns": _axis(panel.columns),
        "legend": [[(value - bar.shown[0]) / (bar.shown[1] - bar.shown[0]), text] for value, text in bar.legend],
        "unit": heatmap.unit,
        "span": [round((v - bar.low) * steps) for v in bar.shown],
        "marked_rows": list(heatmap.marked_rows),
        "marked_columns": list(heatmap.marked_columns),
        "picked": "both" if both else "" if panel.texts and not marked else "rows" if down else "columns",
        **(
            {
                "texts": panel.texts,
                "keys": panel.keys,
                "heads": [tick_text(heatmap.columns, i) for i in range(heatmap.values.shape[1])],
                "names": [heatmap.rows.name, heatmap.columns.name],
            }
            if panel.texts
            else {}
        ),
    }


def _axis(axis: AxisScale) -> dict[str, Any]:
    return {"label": axis.label, "ticks": [[axis.place(value), text] for value, text in axis.ticks]}


@lru_cache(maxsize=8)
def _places(axis: AxisScale, values: tuple[float, ...]) -> list[float | None]:
    """Return the positions of these values on an axis. Recent results are kept, because the axis and the values
    often stay the same when a control of the lab moves.
    """
    return [axis.place(value) for value in values]


def _lines(panel: Chart) -> dict[str, Any]:
    lines, x, y = panel.lines, panel.x, panel.y
    return {
        "kind": "lines",
        "name": lines.name,
        "x": _axis(x) | {"at": _places(x, lines.x.values)},
        "y": _axis(y),
        "lines": [
            {
                "name": curve.line.name,
                "colour": curve.colour,
                "hollow": curve.line.hollow,
                "dash": " ".join(f"{2.2 * part:g}" for part in curve.dash),
                **{
                    name: None if values is None else [y.place(value) for value in values.tolist()]
                    for name, values in (
                        ("y", curve.line.values),
                        ("low", curve.line.low),
                        ("high", curve.line.high),
                    )
                },
            }
            for curve in panel.curves
        ],
        "marks": [[x.place(value), caption] for value, caption in lines.marks],
        "levels": [[y.place(value), caption] for value, caption in lines.levels],
        "apart": lines.apart,
        "between": lines.between,
    }


def _plane(panel: Disc) -> dict[str, Any]:
    return {
        "kind": "plane",
        "name": panel.plane.name,
        "limit": panel.ticks[-1][1],
        "arrows": [_arrow(vector, panel.plane.limit) for vector in panel.vectors],
        "arcs": panel.plane.arcs,
    }


SENT: dict[type, Callable[[Any], dict[str, Any]]] = {Map: _heatmap, Chart: _lines, Disc: _plane}
"""The functions that convert each kind of panel."""


def _arrow(vector: Vector, limit: float) -> dict[str, Any]:
    """Return an arrow, with its tip in units of ``limit``. If the tip can be dragged, the result also contains the
    setting that dragging changes, and the place of the tip for each value of the setting.
    """
    arrow = vector.arrow
    sent = {
        "name": arrow.name,
        "x": round(arrow.x / limit, 5),
        "y": round(arrow.y / limit, 5),
        "length": round(math.hypot(arrow.x, arrow.y) / limit, 5),
        "degrees": round(math.degrees(math.atan2(arrow.y, arrow.x)), 3),
        "ghost": arrow.ghost,
        "role": arrow.role,
        "colour": vector.colour,
        "tip": vector.tip,
        "text": vector.text,
    }
    if arrow.grip is None:
        return sent
    stops = [[value, round(x / limit, 5), round(y / limit, 5)] for value, x, y in arrow.grip.tips]
    grip = {"moves": arrow.grip.setting, "at": arrow.grip.at, "stops": stops}
    return sent | grip | ({"along": arrow.along} if arrow.along else {})
