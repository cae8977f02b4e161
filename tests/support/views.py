"""Views in tests: a small matrix to draw, and the panel of a view that has one."""

from typing import TypeVar

import torch

from posenc.pictures.view import Heatmap, Lines, Plane, View, counted

Kind = TypeVar("Kind", Heatmap, Lines, Plane)


def heatmap(values: list[list[float]], **settings: object) -> Heatmap:
    """A heatmap of these values, signed unless the settings say otherwise."""
    held = torch.tensor(values)
    rows, columns = held.shape
    return Heatmap("h", held, counted("row", rows), counted("column", columns), **{"scale": "signed", **settings})  # type: ignore[arg-type]


def only(view: View, kind: type[Kind]) -> Kind:
    """The panel of this kind; a view has one."""
    (panel,) = (panel for panel in view.panels if isinstance(panel, kind))
    return panel
