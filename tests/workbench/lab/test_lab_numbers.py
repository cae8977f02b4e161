"""Numbers on the page: signs, thin spaces, powers of ten, and ticks at round values."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.workbench.lab.numbers import along, decades, fixed, round_steps, short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-1.1, "−1.100"),
        (1.7, "1.700"),
        (-0.00001, "−1.0 × 10⁻⁵"),
        (2.384e-7, "2.4 × 10⁻⁷"),
        (60611.477, "60\u202f611.477"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (math.nan, "–"),
        (-math.inf, "−∞"),
    ],
)
def test_fixed(value: float, text: str) -> None:
    assert fixed(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1000, "1000"), (12000, "12\u202f000"), (1e6, "10⁶"), (0.25, "0.25"), (1e-9, "10⁻⁹"), (-2, "−2")],
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_steps_are_even_and_inside(low: float, span: float) -> None:
    steps = round_steps(low, low + span)
    slack = span * 1e-6
    assert 1 <= len(steps) <= 8
    assert all(low - slack <= s <= low + span + slack for s in steps)
    gaps = [b - a for a, b in pairwise(steps)]
    assert all(gap == pytest.approx(gaps[0], rel=1e-6) for gap in gaps)


def test_ticks_of_logs_and_of_cells() -> None:
    assert decades(1e-3, 1e3) == [1e-3, 1e-2, 1e-1, 1, 10, 100, 1000]
    assert len(decades(1e-18, 1e3)) <= 7
    assert along(list(range(64))) == [0, 20, 40, 60]
    assert along([0.0, 1.0, 2.0]) == [0, 1, 2]
