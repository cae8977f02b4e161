"""Runs a view's block of Python, and compares the numbers that it prints with those in its picture."""

from collections.abc import Iterator, Mapping

import torch

from posenc.pictures.view import Heatmap, Lines, View
from posenc.scaling import Frequencies

ROUNDING = 1e-6
"""The tolerance: blocks compute in float32, and pictures in float64. Sums have up to 128 products, each with a
relative error of 6e-8, so their errors add up to about √128 · 6e-8 = 7e-7."""


def shown(view: View) -> torch.Tensor:
    """Every number in the panels and readouts."""
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
    """The numbers in a value that a block prints."""
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
    """The numbers that the block prints but the picture does not contain; the block must print at least one."""
    printed: list[object] = []
    exec(view.python, {"print": lambda *values: printed.extend(values)})
    picture, found = shown(view), list(numbers(printed))
    assert found
    return [n for n in found if (picture - n).abs().min() > ROUNDING * max(1, abs(n))]
