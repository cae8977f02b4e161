"""Tables of a view's exact numbers, for pages and for CSV export."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from posenc.errors import InvalidArgument
from posenc.pictures.compose import tick_text
from posenc.pictures.numbers import fixed, short, with_unit
from posenc.pictures.view import Heatmap, Lines, Plane, View

ROWS, COLUMNS = 64, 16
"""The largest number of rows and columns of a table on a page. The CSV file has all rows and columns."""


def tables(answer: View) -> list[dict[str, Any]]:
    """Return one table per panel: caption, head and rows as strings, and a note about omitted rows and columns."""
    return [_table(panel) for panel in answer.panels]


def _table(panel: Heatmap | Lines | Plane) -> dict[str, Any]:
    head, rows = _content(panel)
    words = [[cell if isinstance(cell, str) else fixed(cell, 4) for cell in row[:COLUMNS]] for row in rows[:ROWS]]
    shown = min(len(head), COLUMNS) - 1
    note = f"The first {len(words)} of {len(rows)} rows and {shown} of {len(head) - 1} columns."
    left_out = len(rows) > ROWS or len(head) > COLUMNS
    return {"caption": panel.name, "head": head[:COLUMNS], "rows": words, "note": note if left_out else ""}


def as_csv(answer: View) -> str:
    """Return the numbers of every panel with all digits, then the readouts, as CSV."""
    lines: list[Sequence[str | float]] = [[answer.title]]
    for panel in answer.panels:
        head, rows = _content(panel)
        lines += [[], [panel.name], head, *rows]
    if answer.readouts:
        lines += [[], *answer.readouts.items()]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _content(panel: Heatmap | Lines | Plane) -> tuple[list[str], list[list[str | float]]]:
    if isinstance(panel, Plane):
        return ["vector", "x", "y"], [[arrow.name, arrow.x, arrow.y] for arrow in panel.arrows]
    if isinstance(panel, Lines):
        columns = [line.values.tolist() for line in panel.lines]
        places = range(0, len(panel.x.values), panel.between + 1)  # interpolated points are drawn, but not listed
        return [with_unit(panel.x.name, panel.x.unit), *(line.name for line in panel.lines)], [
            [tick_text(panel.x, i), *(column[i] for column in columns)] for i in places
        ]
    names = (tick_text(panel.columns, j) for j in range(len(panel.columns.values)))
    return [f"{panel.rows.name} \\ {panel.columns.name}", *names], [
        [tick_text(panel.rows, i), *row] for i, row in enumerate(panel.values.tolist())
    ]


def value_at(answer: View, panel: int, row: int, column: int) -> str:
    """Describe the value at one position in a picture; for lines, the values of all lines at this column."""
    if not 0 <= panel < len(answer.panels):
        raise InvalidArgument(
            f"panel={panel} must be less than {len(answer.panels)}, the number of panels; count from 0"
        )
    asked = answer.panels[panel]
    if isinstance(asked, Plane):
        raise InvalidArgument(
            f"panel={panel} is a plane of arrows, whose values are written in the picture; choose another panel"
        )
    rows, columns = (asked.rows.values, asked.columns) if isinstance(asked, Heatmap) else ((0.0,), asked.x)
    if not (0 <= column < len(columns.values) and 0 <= row < len(rows)):
        raise InvalidArgument(
            f"row={row}, column={column} must be inside the panel's {len(rows)} rows × {len(columns.values)} "
            "columns, counted from 0"
        )
    if isinstance(asked, Heatmap):
        place = f"{asked.rows.name} {tick_text(asked.rows, row)}, {columns.name} {tick_text(columns, column)}"
        value = float(asked.values[row, column])
        return f"{place}: {short(value) if asked.picture is not None else fixed(value, 6)}"
    values = [f"{line.name} {fixed(float(line.values[column]), 6)}" for line in asked.lines]
    return f"{columns.name} {short(columns.values[column])}: " + ", ".join(values)
