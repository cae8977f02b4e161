"""The views that the lab asks first: order, rotation, exactness, tables and methods of extension."""

import pytest
import torch

from posenc.pictures.view import Heatmap
from posenc.teaching.views import exactness, order_blind, rotation, table

FLOAT32 = 1e-5
"""Outputs of order 1, sums of 8 products, in float32."""


def test_a_causal_mask_alone_tells_order() -> None:
    assert order_blind.shuffle(causal=True).readouts["status"] == "changed"


def test_two_sided_alibi_cannot_tell_a_mirror_image() -> None:
    assert order_blind.shuffle(order=(2, 1, 0), encoding="alibi").readouts["status"] == "the same vectors, moved"
    assert order_blind.shuffle(order=(1, 0, 2), encoding="alibi").readouts["status"] == "changed"


def test_cat_sat_has_the_lessons_numbers_before_and_after_the_swap() -> None:
    cat, sat = [0.4701, 0.4414, 0.6885, 0.2943], [0.4022, 0.4705, 0.7273, 0.3137]
    for swap, expected in ((False, [cat, sat]), (True, [sat, cat])):
        outputs = order_blind.cat_sat(swap).panels[2]
        assert isinstance(outputs, Heatmap)
        torch.testing.assert_close(outputs.values, torch.tensor(expected), atol=5e-5, rtol=0)


@pytest.mark.parametrize(("offset", "score"), [(0, 1.7), (1, 0.4243), (2, -1.1), (4, -1.7), (8, 1.7)])
@pytest.mark.parametrize("m", [0, 1, 3, 100, 10**6])
def test_moving_both_changes_nothing(m: int, offset: int, score: float) -> None:
    told = rotation.shift_both(m, offset).readouts
    assert told["unrotated q·k"] == pytest.approx(1.7, abs=1e-12)
    # An eighth of a turn is exact in the clock, so only float64 products round.
    assert told["score (rotated q·k)"] == pytest.approx(float(told["reference, m = 0"]), abs=1e-12)
    assert told["score (rotated q·k)"] == pytest.approx(score, abs=5e-5)


def test_pairs_add_up_to_the_score_and_ignore_a_shift() -> None:
    near, far = (rotation.every_pair(m, 2).readouts["score, rotated"] for m in (1, 10**6))
    # 16 products of numbers up to 3 in float32, and cos and sin good to 3e-8.
    assert near == pytest.approx(far, abs=2e-5)


def test_pairings_are_one_permutation_apart() -> None:
    told = rotation.pairings(3).readouts
    assert float(told["largest difference, half and interleaved"]) > 0.5
    # Both round the same two products and their sum, of size 2 to 4, perhaps in another order: two units of 2⁻²².
    assert float(told["the same after permuting channels"]) <= 5e-7


def test_float32_angles_drift_far_out() -> None:
    for position, drift in ((1_000_000, 2e-2), (2**31 - 1, 0.5)):
        assert float(exactness.floor(position).readouts["largest error"]) > drift


def test_one_past_the_table_is_the_librarys_error() -> None:
    assert str(table.lookup(8, past_end="error").readouts["answer"]).startswith(
        "PositionOutOfRange: positions contains 8, but the"
    )
    assert table.lookup(7).readouts["answer"] == "its own row"
    assert table.lookup(12, past_end="clamp").readouts["answer"] == "the last row again, row 7"
