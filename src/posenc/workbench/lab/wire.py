"""A view as JSON that a painter can paint without computing: codes, fractions, ticks and finished texts.

Every place is a fraction of its axis, 0 at the left or bottom and 1 at the right or top; every number that is
read by eyes is already written. What the page adds is pixels.
"""

import base64
import math
from typing import Any

import torch
from torch import Tensor

from posenc.workbench import palette
from posenc.workbench.lab.colours import DASHES, EMPTY
from posenc.workbench.lab.numbers import MINUS, along, decades, fixed, round_steps, short
from posenc.workbench.views.view import Axis, Heatmap, Lines, Plane, View

WRITTEN_CELLS = 160
"""A matrix of at most so many cells also carries its numbers."""


def view(answer: View) -> dict[str, Any]:
    """Everything that the page shows of a view."""
    return {
        "title": answer.title,
        "panels": [_panel(panel) for panel in answer.panels],
        "readouts": [{"name": name, "text": readout(value)} for name, value in answer.readouts.items()],
        "python": answer.python,
    }


def readout(value: float | str) -> str:
    """Words stay; numbers get three decimals, and three digits where they are small."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return short(value)
    leading = 3 - math.ceil(math.log10(abs(value))) if 5e-4 <= abs(value) < 0.1 else 3
    return fixed(value, leading)


def _panel(panel: Heatmap | Lines | Plane) -> dict[str, Any]:
    if isinstance(panel, Heatmap):
        return _heatmap(panel)
    return _lines(panel) if isinstance(panel, Lines) else _plane(panel)


def limits(panel: Heatmap) -> tuple[float, float]:
    """Values at the ends of the colour scale."""
    if panel.scale == "signed" and panel.limit is not None:
        return -panel.limit, panel.limit
    low = float(panel.values.nan_to_num(math.inf).min())
    high = float(panel.values.nan_to_num(-math.inf).max())
    if low > high:  # not one value
        low, high = 0.0, 0.0
    if panel.scale == "signed":
        end = max(-low, high) or 1.0
        return -end, end
    if panel.limit is not None:
        return min(low, 0.0), panel.limit
    return low, high if high > low else low + 1


def codes(panel: Heatmap) -> Tensor:
    """Values as uint8: 0 … 254 from end to end of the scale, 255 for NaN."""
    low, high = limits(panel)
    steps = EMPTY - 1
    # float32 is 2^17 times finer than a step; the page's exact values come from the view itself.
    places = panel.values.to(torch.float32).sub(low).mul_(steps / (high - low)).clamp_(0, steps)
    return places.round_().nan_to_num_(EMPTY).to(torch.uint8)


def _heatmap(panel: Heatmap) -> dict[str, Any]:
    rows, columns = panel.values.shape
    low, high = limits(panel)
    ends = (low, 0.0, high) if panel.scale == "signed" else (low, high)
    wire = {
        "kind": "heatmap",
        "name": panel.name,
        "scale": panel.scale,
        "shape": [rows, columns],
        "codes": base64.b64encode(codes(panel).contiguous().numpy().tobytes()).decode(),
        "rows": _cells(panel.rows),
        "columns": _cells(panel.columns),
        "legend": [short(float(f"{v:.2g}")) for v in ends],
        "unit": panel.unit,
        "marked_rows": list(panel.marked_rows),
        "marked_columns": list(panel.marked_columns),
        "picked": "rows" if panel.rows.name == "position" and panel.columns.name != "position" else "columns",
    }
    if rows * columns <= WRITTEN_CELLS:
        wire["texts"] = _written(panel)
        wire["keys"] = list(panel.rows.labels) or [short(v) for v in panel.rows.values]
    return wire


def _written(panel: Heatmap) -> list[list[str]]:
    """Every cell's number, all with as many decimals as the cells have room and the values need."""
    largest = float(panel.values.nan_to_num().abs().max())
    digits = 4 if panel.values.shape[1] <= 4 else 2 if largest >= 0.1 else 3
    return [[f"{v:.{digits}f}".replace("-", MINUS) for v in row] for row in panel.values.tolist()]


def _cells(axis: Axis) -> dict[str, Any]:
    """An axis whose values own cells: ticks sit at the middles of theirs."""
    indices = range(len(axis.values)) if axis.labels else along(axis.values)
    return {"label": axis.label, "ticks": [[(i + 0.5) / len(axis.values), at(axis, i)] for i in indices]}


def at(axis: Axis, index: int) -> str:
    """What is written at one value of an axis."""
    return axis.labels[index] if axis.labels else short(axis.values[index])


def _lines(panel: Lines) -> dict[str, Any]:
    x = _Scale(panel.x.values, panel.x.log, tight=True)
    bounds = [t for line in panel.lines for t in (line.values, line.low, line.high) if t is not None]
    y = _Scale([v for tensor in bounds for v in tensor.tolist()], panel.y_log, tight=False)
    # A few values are worth a tick each; many get round ones.
    few = panel.x.labels or (panel.x.log and len(panel.x.values) <= 8)
    ticks = [[x.place(v), at(panel.x, i)] for i, v in enumerate(panel.x.values)] if few else x.ticks()
    drawn = []
    for number, line in enumerate(panel.lines):
        dash = palette.style(line.encoding).dash if line.encoding else DASHES[number % len(DASHES)]
        drawn.append(
            {
                "dash": " ".join(f"{2.2 * part:g}" for part in dash),
                "name": palette.style(line.encoding).label if line.encoding and not line.name else line.name,
                "colour": f"encoding-{family}"
                if (family := palette.family(line.encoding))
                else f"series-{number % 8}",
                "y": [y.place(v) for v in line.values.tolist()],
                "low": None if line.low is None else [y.place(v) for v in line.low.tolist()],
                "high": None if line.high is None else [y.place(v) for v in line.high.tolist()],
                "hollow": line.hollow,
            }
        )
    return {
        "kind": "lines",
        "name": panel.name,
        "x": {"label": panel.x.label, "ticks": ticks, "at": [x.place(v) for v in panel.x.values]},
        "y": {"label": f"{panel.y_name} ({panel.y_unit})" if panel.y_unit else panel.y_name, "ticks": y.ticks()},
        "lines": drawn,
        "marks": [[x.place(value), caption] for value, caption in panel.marks],
    }


class _Scale:
    """Values to fractions of an axis, linear or in powers of ten; values it cannot place become None."""

    def __init__(self, values: Any, log: bool, tight: bool) -> None:
        held = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
        self.log = log
        low, high = min(held), max(held)
        if log and not tight:
            # A float32 just below a power of ten belongs to it, not to the decade before.
            low = 10.0 ** math.floor(math.log10(low) + 1e-6)
            high = 10.0 ** math.ceil(math.log10(high) - 1e-6)
        elif not tight:
            steps = round_steps(low, high)
            gap = steps[1] - steps[0] if len(steps) > 1 else 1.0
            low, high = math.floor(low / gap + 1e-9) * gap, math.ceil(high / gap - 1e-9) * gap
        self.low, self.high = low, high if high > low else low + (abs(low) or 1.0)

    def place(self, value: float) -> float | None:
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return round(min(1.0, max(0.0, (value - low) / (high - low))), 5)

    def ticks(self) -> list[list[Any]]:
        values = decades(self.low, self.high) if self.log else round_steps(self.low, self.high)
        return [[self.place(v), short(v)] for v in values]


def _plane(panel: Plane) -> dict[str, Any]:
    return {
        "kind": "plane",
        "name": panel.name,
        "limit": short(panel.limit),
        "arrows": [
            {
                "name": arrow.name,
                "x": round(arrow.x / panel.limit, 5),
                "y": round(arrow.y / panel.limit, 5),
                "length": round(math.hypot(arrow.x, arrow.y) / panel.limit, 5),
                "degrees": round(math.degrees(math.atan2(arrow.y, arrow.x)), 3),
                "ghost": arrow.ghost,
                "role": arrow.role,
                "tip": first if len(first := arrow.name.split()[0]) <= 2 else "",
                "text": f"({fixed(arrow.x)}, {fixed(arrow.y)})",
            }
            for arrow in panel.arrows
        ],
    }
