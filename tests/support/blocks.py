"""Runs a view's block of Python and holds the numbers that it prints to those of its picture."""

from collections.abc import Iterator, Mapping

import torch

from posenc.pictures.view import Heatmap, Lines, View
from posenc.scaling import Frequencies

ROUNDING = 1e-6
"""Blocks compute in float32 what pictures compute in float64: sums of up to 128 products, each good to 6e-8, whose
roundings add up as √128 · 6e-8 = 7e-7."""


def shown(view: View) -> torch.Tensor:
    """Every number that is painted or read out."""
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
    """The numbers of what a block prints."""
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
    """Numbers that the block prints, of at least one, and that are nowhere in the picture."""
    printed: list[object] = []
    exec(view.python, {"print": lambda *values: printed.extend(values)})
    picture, found = shown(view), list(numbers(printed))
    assert found
    return [n for n in found if (picture - n).abs().min() > ROUNDING * max(1, abs(n))]
