"""“Show the Python” runs as it stands and prints numbers of its picture."""

from collections.abc import Iterator, Mapping

import pytest
import torch

from posenc.errors import PositionOutOfRange
from posenc.schedules import Spectrum
from posenc.workbench.views.catalogue import VIEWS, make
from posenc.workbench.views.view import Heatmap, Lines, View

CASES = [
    *((name, {}) for name in VIEWS),
    ("heatmap", {"first": "3", "second": "20", "order": "block"}),
    ("hands", {"position": "1000000", "base": "1234567.5"}),
    ("fill", {"step": "1"}),
    ("fill", {"step": "2"}),
    ("fingerprint", {"position": "5"}),
    *(("table", {"step": str(step)}) for step in (1, 2, 4)),
    ("lookup", {"position": "12", "past_end": "clamp"}),
    ("lookup", {"position": "12"}),
    ("rows", {"rows": "8", "width": "16"}),
    ("score", {"content": "peaked"}),
    ("bias", {"causal": "true"}),
    ("cat-sat", {"step": "1"}),
    ("cat-sat", {"step": "2"}),
    ("cat-sat", {"step": "4"}),
    ("shuffle", {"encoding": "learned", "causal": "true"}),
    ("attention", {"encoding": "learned"}),
    ("shift-both", {"m": "3", "turn": "radian"}),
    ("every-pair", {"m": "1000000"}),
    ("schedule", {"schedule": "ntk"}),
]

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
    elif isinstance(value, Spectrum):
        yield from map(float, value.frequencies)
    elif isinstance(value, Mapping):
        yield from numbers(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, float | int):
        yield float(value)


@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda case: case if isinstance(case, str) else str(case))
def test_a_block_prints_numbers_of_its_picture(name: str, settings: dict[str, str]) -> None:
    view, printed = make(name, settings), list[object]()
    try:
        exec(view.python, {"print": lambda *values: printed.extend(values)})
    except PositionOutOfRange as error:
        refused = f"PositionOutOfRange: {error}"
    else:
        refused = ""
    if refused:
        assert view.readouts["answer"] == refused
        return
    picture = shown(view)
    found = list(numbers(printed))
    assert found
    assert not [n for n in found if (picture - n).abs().min() > ROUNDING * max(1, abs(n))]
