"""The view of the time, row and column of every token of an image or video, counted as in Qwen2-VL."""

from typing import Annotated

from posenc.pictures.view import Heatmap, View, counted
from posenc.positions import Text, Video, multimodal
from posenc.teaching.views.bounds import Bounds, bounded

PYTHON = """\
from posenc.positions import Text, Video, multimodal

spans = [Text({before}), Video({frames}, {rows}, {columns}), Text(2)]
positions, following = multimodal(spans, "qwen2-vl")      # time, row and column of every token
print(following - 2, positions[:, {token}])"""


@bounded
def patches(
    frames: Annotated[int, Bounds(1, 8)] = 1,
    frame: Annotated[int, Bounds(0, 7, below="frames")] = 0,
    rows: Annotated[int, Bounds(1, 10)] = 4,
    columns: Annotated[int, Bounds(1, 12)] = 6,
    before: Annotated[int, Bounds(1, 64)] = 3,
    row: Annotated[int, Bounds(0, 9, below="rows")] = 1,
    column: Annotated[int, Bounds(0, 11, below="columns")] = 2,
) -> View:
    """Show the three coordinates of every token of one frame, with text before and after the frame.

    Args:
        frames: the number of frames in the video; 1 for an image.
        frame: the frame to show.
        rows, columns: the number of rows and columns of tokens; a token covers 2 × 2 patches.
        before: the number of text tokens before the video.
        row, column: the position of the marked token.
    """
    positions, following = multimodal([Text(before), Video(frames, 2 * rows, 2 * columns), Text(2)], "qwen2-vl")
    cells = positions[:, before : before + frames * rows * columns].view(3, frames, rows, columns)
    here = cells[:, frame, row, column].tolist()
    panels = tuple(
        Heatmap(
            f"position on the {name} axis",
            values.double(),
            counted("row in the picture", rows),
            counted("column", columns),
            "magnitude",
            limit=float(following),
            marked_rows=(row,),
            marked_columns=(column,),
        )
        for name, values in zip(("time", "row", "column"), cells[:, frame], strict=True)
    )
    token = before + (frame * rows + row) * columns + column
    return View(
        f"After {before} words, the token in row {row}, column {column} has positions {', '.join(map(str, here))}",
        panels,
        {
            "position of the last word before": before - 1,
            "position of the first word after": following - 2,
            "tokens so far": before + frames * rows * columns,
        },
        PYTHON.format(before=before, frames=frames, rows=2 * rows, columns=2 * columns, token=token),
    )
