"""The views that the lab asks first: order, rotation and exactness."""

import pytest

from posenc.teaching.views import exactness, order_blind, rotation


@pytest.mark.parametrize(
    ("sentence", "order", "encoding", "title"),
    [
        pytest.param(
            "dog bites man",
            (2, 1, 0),
            "alibi",
            "Nothing changes: each output",
            id="two-sided ALiBi cannot tell a mirror",
        ),
        pytest.param("dog bites man", (1, 0, 2), "alibi", "Order counts: 24 of 24", id="but another order"),
        pytest.param("dog bites dog", (2, 1, 0), "rotary", "Order counts: 16 of 24", id="a mirrored palindrome"),
    ],
)
def test_a_headline_says_whether_order_counts(
    sentence: str, order: tuple[int, ...], encoding: str, title: str
) -> None:
    assert order_blind.shuffle(sentence, order, encoding).title.startswith(title)


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
