"""The views that the lab asks first: order, rotation and exactness."""

import pytest

from posenc.teaching.views import exactness, order_blind, rotation


def test_two_sided_alibi_cannot_tell_a_mirror_image() -> None:
    assert order_blind.shuffle(order=(2, 1, 0), encoding="alibi").readouts["status"] == "the same vectors, moved"
    assert order_blind.shuffle(order=(1, 0, 2), encoding="alibi").readouts["status"] == "changed"
    assert "16 of 24" in order_blind.shuffle("dog bites dog", encoding="rotary").title, "a mirrored palindrome"


@pytest.mark.parametrize(("offset", "score"), [(0, 1.7), (1, 0.4243), (2, -1.1), (4, -1.7), (8, 1.7)])
@pytest.mark.parametrize("m", [0, 1, 3, 100, 10**6])
def test_moving_both_changes_nothing(m: int, offset: int, score: float) -> None:
    told = rotation.shift_both(m, offset).readouts
    assert told["unrotated q·k"] == pytest.approx(1.7, abs=1e-12)
    # An eighth of a turn is exact in the clock, so only float64 products round.
    assert told["score (rotated q·k)"] == pytest.approx(float(told["reference, m = 0"]), abs=1e-12)
    assert told["score (rotated q·k)"] == pytest.approx(score, abs=5e-5)


@pytest.mark.parametrize(("position", "drift"), [(1_000_000, 2e-2), (2**31 - 1, 0.5)])
def test_float32_angles_drift_far_out(position: int, drift: float) -> None:
    assert float(exactness.floor(position).readouts["largest error"]) > drift
