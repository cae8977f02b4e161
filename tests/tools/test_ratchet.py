"""The gauge counts what runs, and refuses growth as well as a number that nobody lowered."""

import pytest

from tools import ratchet


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        ('"""Docstring."""\nimport os\nfrom os import path\n', 0),
        ('def f():\n    """Docstring."""\n    import os\n    return os\n', 2),
        ("class A:\n    x = 1\n    '''what x is'''\n", 2),
        ("if a: b; c\n", 3),
        ("f'{a}'\n", 1),
    ],
)
def test_statements_that_run_are_counted(source: str, counted: int) -> None:
    assert ratchet.statements(source) == counted


def test_growth_and_a_stale_number_are_refused() -> None:
    assert ratchet.complaint(100, 100) is None
    assert ratchet.complaint(100, 100 + ratchet.SLACK) is None
    assert "delete 1," in str(ratchet.complaint(101, 100))
    assert "lower it to 100" in str(ratchet.complaint(100, 101 + ratchet.SLACK))
