"""“Show the Python” runs as it stands and prints numbers of its picture."""

import pytest

from posenc.errors import PositionOutOfRange
from posenc.teaching.views.catalogue import VIEWS, make
from support.blocks import strays

CASES = [
    *((name, {}) for name in VIEWS),
    ("heatmap", {"first": "3", "second": "20", "order": "block"}),
    ("hands", {"position": "1000000", "base": "1234567.5"}),
    ("lookup", {"position": "12", "past_end": "clamp"}),
    ("lookup", {"position": "12"}),
    ("score", {"content": "peaked"}),
    ("bias", {"causal": "true"}),
    ("cat-sat", {"swap": "true"}),
    ("shuffle", {"encoding": "learned", "causal": "true"}),
    ("attention", {"encoding": "learned"}),
    ("shift-both", {"m": "3", "turn": "radian"}),
    ("every-pair", {"m": "1000000"}),
    ("scaling", {"scaling": "ntk"}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda case: case if isinstance(case, str) else str(case))
def test_a_block_prints_numbers_of_its_picture(name: str, settings: dict[str, str]) -> None:
    view = make(name, settings)
    try:
        assert strays(view) == []
    except PositionOutOfRange as error:
        refused = f"PositionOutOfRange: {error}"
    else:
        return
    assert view.readouts["answer"] == refused
