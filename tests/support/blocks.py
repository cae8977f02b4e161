"""Runs the Python code of a view, and compares the printed numbers with the numbers in the picture."""

from collections.abc import Iterator, Mapping

import torch

from posenc.pictures.view import Heatmap, Lines, View
from posenc.scaling import Frequencies

ROUNDING = 1e-6
"""The tolerance between a block's float32 and a picture's float64. A sum has up to 128 products, each with a
relative error of 6e-8, and their errors add up to about √128 · 6e-8 = 7e-7."""


def shown(view: View) -> torch.Tensor:
    """Return every number in the panels and readouts of a view."""
    parts = [torch.tensor([v for v in view.readouts.values() if isinstance(v, float | int)], dtype=torch.float64)]
    for panel in view.panels:
        if isinstance(panel, Heatmap):
            parts.extend((panel.values.flatten().double(), torch.tensor(panel.values.shape)))
        elif isinstance(panel, Lines):
            parts.extend(line.values.flatten().double() for line in panel.lines)
        else:
            parts.append(torch.tensor([(a.x, a.y) for a in panel.arrows], dtype=torch.float64).flatten())
    numbers = torch.cat(parts)
    return numbers[~numbers.isnan()]


def numbers(value: object) -> Iterator[float]:
    """Yield the numbers in a value that a block prints."""
    if isinstance(value, torch.Tensor):
        yield from value.detach().flatten().double().tolist()
    elif isinstance(value, Frequencies):
        yield from map(float, value.exact)
    elif isinstance(value, Mapping):
        yield from numbers(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, float | int):
        yield float(value)


def strays(view: View) -> list[float]:
    """Return the numbers that the block prints and the picture lacks; the block must print at least one number."""
    printed: list[object] = []
    exec(view.python, {"print": lambda *values: printed.extend(values)})
    picture, found = shown(view), list(numbers(printed))
    assert found
    return [n for n in found if (picture - n).abs().min() > ROUNDING * max(1, abs(n))]
