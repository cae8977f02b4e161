"""Helpers for tests of views: a small heatmap to draw, and the only panel of a view."""

from typing import TypeVar

import torch

from posenc.pictures.view import Heatmap, Lines, Plane, View, counted

Kind = TypeVar("Kind", Heatmap, Lines, Plane)


def heatmap(values: list[list[float]], **settings: object) -> Heatmap:
    """Return a heatmap of these values, which is signed by default."""
    held = torch.tensor(values)
    rows, columns = held.shape
    return Heatmap("h", held, counted("row", rows), counted("column", columns), **{"scale": "signed", **settings})  # type: ignore[arg-type]


def only(view: View, kind: type[Kind]) -> Kind:
    """Return the only panel of a view, which must have this kind."""
    (panel,) = (panel for panel in view.panels if isinstance(panel, kind))
    return panel
