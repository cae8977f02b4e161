"""The stage of the cache shows what the angles of its positions say, derived here apart from the library."""

import math

import pytest

from posenc.teaching.views.cache import EVENTS, angles

MOVED = {"push": 0, "evict": 0, "shift": 8, "sinks": 8, "passage": 24}
"""Positions that keys move, of 24 tokens in a cache of 16."""


@pytest.mark.parametrize("event", EVENTS)
def test_stale_keys_are_off_by_the_distance_that_they_moved(event: str) -> None:
    view = angles(event)
    moved = MOVED[event]
    thetas = [10_000 ** (-2 * i / 16) for i in range(8)]
    want = [abs(math.remainder(moved * theta, 2 * math.pi)) for theta in thetas]
    assert view.panels[1].values[:, -1].tolist() == pytest.approx(want, abs=1e-4)
    assert view.readouts["stale keys"] == {"push": 0, "evict": 0, "sinks": 12}.get(event, 16)
    # The newest key and the newest query stand at one place, and the score of a fresh key is 8 / 4 = 2 there.
    at_zero = abs(sum(math.cos(moved * theta) for theta in thetas) / 4 - 2)
    assert view.readouts["largest error of a score"] >= at_zero - 1e-4
