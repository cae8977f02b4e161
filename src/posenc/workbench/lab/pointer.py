"""What one place of a picture holds: what a page asks for under its pointer."""

from posenc.errors import InvalidArgument
from posenc.workbench.scene.tables import told
from posenc.workbench.views.view import Heatmap, Plane, View


def under_pointer(answer: View, panel: int, row: int, column: int) -> str:
    """One place in words; lines are asked by column alone."""
    if not 0 <= panel < len(answer.panels):
        raise InvalidArgument(f"panel={panel} is not one of the {len(answer.panels)} panels, counted from 0")
    asked = answer.panels[panel]
    if isinstance(asked, Plane):
        raise InvalidArgument(f"panel={panel} is a plane; its vectors carry their numbers already")
    columns = asked.columns if isinstance(asked, Heatmap) else asked.x
    count = len(asked.rows.values) if isinstance(asked, Heatmap) else 1
    if not (0 <= column < len(columns.values) and 0 <= row < count):
        raise InvalidArgument(
            f"row={row}, column={column} lie outside {count} × {len(columns.values)}, counted from 0"
        )
    return told(asked, row, column)
