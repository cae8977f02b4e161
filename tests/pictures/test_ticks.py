"""Ends and ticks of axes: round values, enough of them to read a value off, and nothing cut off unsaid."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.pictures.compose import ENOUGH, linear_limits, log_limits, round_steps, tick_indices


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_steps_are_even_and_inside(low: float, span: float) -> None:
    steps = round_steps(low, low + span)
    slack = span * 1e-6
    assert 1 <= len(steps) <= 8
    assert all(low - slack <= s <= low + span + slack for s in steps)
    gaps = [b - a for a, b in pairwise(steps)]
    assert all(gap == pytest.approx(gaps[0], rel=1e-6) for gap in gaps)


@given(st.lists(st.floats(1e-30, 1e30), min_size=1, max_size=20))
def test_a_logarithmic_axis_holds_its_values_and_a_few_ticks(values: list[float]) -> None:
    low, high, ticks = log_limits([values])
    shown = [v for v in values if v >= max(values) / 1e6]
    assert 2 <= len(ticks) <= 7
    assert all(low * (1 - 1e-5) <= v <= high * (1 + 1e-5) for v in shown)
    assert all(low * 0.99 <= t <= high * 1.01 for t in ticks)


def test_ticks_of_logs_and_of_cells() -> None:
    assert log_limits([[1e-3, 1e3]])[2] == [1e-3, 1e-2, 1e-1, 1, 10, 100, 1000]
    assert tick_indices(list(range(64))) == [0, 20, 40, 60]
    assert tick_indices([0.0, 1.0, 2.0]) == [0, 1, 2]


@pytest.mark.parametrize("values", [[7.5, 15.0], [1.0, 1.1], [30.0, 90.0], [0.004, 0.5], [5.0]])
def test_a_short_logarithmic_axis_can_be_read(values: list[float]) -> None:
    low, high, ticks = log_limits([values])
    assert len(ticks) >= min(ENOUGH, 2 * len(values))
    assert low > min(values) / 10
    assert high <= max(values) * 10


def test_what_is_not_positive_has_no_place_on_a_logarithmic_axis() -> None:
    assert log_limits([[0.0, 1.0], [0.0]])[0] > 0
    assert log_limits([[0.0]])[0] > 0
    # Far down a curve is cut off, unless it is there as a whole.
    assert log_limits([[1.0, 1e-300]])[0] == 1e-6
    assert log_limits([[1.0], [1e-12]])[0] <= 1e-12


def test_a_linear_axis_ends_at_round_values() -> None:
    assert linear_limits([[0.2, 9.3]]) == (0.0, 10.0, [0, 2, 4, 6, 8, 10])
    assert linear_limits([[3.0]])[:2] == (3.0, 6.0)
