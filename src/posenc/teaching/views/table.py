"""Views of the rows of a learned table, and of positions past its end."""

import math
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import normalize

import posenc
from posenc.encodings.learned import PastEnd
from posenc.errors import PositionOutOfRange
from posenc.pictures.numbers import plain
from posenc.pictures.view import Axis, Heatmap, View, counted
from posenc.teaching.views.bounds import Bounds, Position, bounded

ROWS, WIDTH = 8, 8
BLOCK = 2
"""The number of rows, at the start of a table, that are left out of comparisons."""
VISIBLE = 0.2
"""The smallest difference of mean cosines that the colours show."""

TABLE_PYTHON = """\
import torch, posenc

torch.manual_seed(0)    # for the picture's rows
table = posenc.Learned({rows}, {width}, past_end="{past_end}")
print({printed})"""


@bounded
def lookup(
    position: Position = 8, rows: Annotated[int, Bounds(1, 4096)] = ROWS, past_end: PastEnd = "clamp"
) -> View:
    """Show a table with ``rows`` rows, and the result of looking up one position."""
    table = posenc.Learned(rows, WIDTH, past_end=past_end)
    torch.nn.init.normal_(table.weight, std=table.std, generator=torch.Generator().manual_seed(0))
    channel = counted("channel", WIDTH)
    stored = Heatmap("the whole table", table.weight.detach(), counted("position", rows), channel, "signed")
    readouts: dict[str, float | str] = {"rows": str(rows), "last position": str(rows - 1)}
    try:
        row = table.table(torch.tensor([position])).detach()
    except PositionOutOfRange as error:
        title = f"Position {position} has no row: the library raises an error"
        readouts["answer"] = f"{type(error).__name__}: {error}"
        row = torch.full((1, WIDTH), math.nan)
    else:
        inside = position < rows
        title = f"Position {position} is row {position if inside else rows - 1}"
        readouts["answer"] = "its own row" if inside else f"the last row again, row {rows - 1}"
    limit = float(stored.values.abs().max())
    return View(
        title=title,
        panels=(stored, Heatmap("looked up", row, Axis("position", (position,)), channel, "signed", limit=limit)),
        readouts=readouts,
        python=TABLE_PYTHON.format(
            rows=rows, width=WIDTH, past_end=past_end, printed=f"table.table(torch.tensor([{position}]))"
        ),
    )


def trained(before: Tensor, after: Tensor, name: str = "trained") -> View:
    """Show the cosine similarity of every pair of rows of a ``(rows, width)`` table, before and after training.

    The mean cosines of neighbours and of other pairs exclude the first ``BLOCK`` rows.
    """
    panels, readouts = [], dict[str, float | str]()
    axis = counted("position", len(after))
    for when, label, table in (("before", "before training", before), ("after", name, after)):
        unit = normalize(table.detach().double(), dim=-1)
        cosine = unit @ unit.T
        panels.append(Heatmap(label, cosine, axis, axis, "magnitude", "cosine", limit=1.0))
        later = cosine[BLOCK:, BLOCK:]
        apart = float(cosine[:BLOCK, BLOCK:].mean())
        first, second = torch.triu_indices(len(later), len(later), 2)
        near, other = float(later.diagonal(1).mean()), float(later[first, second].mean())
        readouts = {
            f"neighbours from row {BLOCK} on, {when}": plain(near, 2),
            f"other pairs from row {BLOCK} on, {when}": plain(other, 2),
            **readouts,
        }
    if abs(near - other) < VISIBLE < other - apart:
        mean = plain(apart, 2)
        title = f"Training splits the first {BLOCK} rows off: their mean cosine with later rows is {mean}"
        readouts = {f"first {BLOCK} rows with later rows": mean, **readouts}
    else:
        more = "more" if near > other else "less"
        means = f"(cosine {plain(near, 2)}) than other pairs ({plain(other, 2)})"
        title = f"From row {BLOCK} on, training leaves neighbours {more} similar {means}"
    return View(title=title, panels=tuple(panels), readouts=readouts)
