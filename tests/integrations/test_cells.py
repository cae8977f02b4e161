"""The table of docs: which scalings of which models each program was asked about, and what is refused."""

import pytest

from support.cells import WRITE, cells, recorded, run
from support.served import PROGRAMS


@pytest.mark.parametrize("program", WRITE)
def test_a_cell_is_refused_where_the_table_says_so(program: str) -> None:
    for cell in cells(program):
        assert recorded()[program][cell.scaling][cell.model] == (cell.outcome or "run"), cell


@pytest.mark.programs
@pytest.mark.skipif(not PROGRAMS.exists(), reason="no other programs here; type: make programs")
@pytest.mark.parametrize("program", WRITE)
def test_every_cell_that_can_be_is_run(program: str) -> None:
    assert run(program) == recorded()[program]
