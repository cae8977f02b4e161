"""The views that the lab asks first: order, rotation, exactness, tables and methods of extension."""

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.pictures.view import Heatmap, Plane
from posenc.teaching.views import exactness, order_blind, rotation, sums, table

FLOAT32 = 1e-5
"""Outputs of order 1, sums of 8 products, in float32."""


@pytest.mark.parametrize(("encoding", "follows"), [("nope", True), ("sinusoidal", False), ("rotary", False)])
def test_without_positions_outputs_follow_the_words(encoding: str, follows: bool) -> None:
    view = order_blind.shuffle(encoding=encoding)
    difference = float(view.readouts["largest difference"])
    assert (difference < FLOAT32) is follows
    assert view.readouts["status"] == ("the same vectors, moved" if follows else "changed")


def test_a_causal_mask_alone_tells_order() -> None:
    assert order_blind.shuffle(causal=True).readouts["status"] == "changed"


def test_two_sided_alibi_cannot_tell_a_mirror_image() -> None:
    assert order_blind.shuffle(order=(2, 1, 0), encoding="alibi").readouts["status"] == "the same vectors, moved"
    assert order_blind.shuffle(order=(1, 0, 2), encoding="alibi").readouts["status"] == "changed"


def test_an_arrangement_must_fit_its_sentence() -> None:
    with pytest.raises(InvalidArgument, match="order=1-0 is not an arrangement of 3 words; use each of 0 … 2 once"):
        order_blind.shuffle(order=(1, 0))
    with pytest.raises(InvalidArgument, match="order=0-0-1 is not an arrangement of 3 words"):
        order_blind.shuffle(order=(0, 0, 1))


def test_cat_sat_has_the_lessons_numbers_before_and_after_the_swap() -> None:
    cat, sat = [0.4701, 0.4414, 0.6885, 0.2943], [0.4022, 0.4705, 0.7273, 0.3137]
    for step, expected in ((3, [cat, sat]), (4, [sat, cat])):
        outputs = order_blind.cat_sat(step).panels[2]
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
    assert float(told["largest difference, half and interleaved"]) > 1
    # Both round the same two products and their sum, of size 2 to 4, perhaps in another order: two units of 2⁻²².
    assert float(told["the same after permuting channels"]) <= 5e-7


def test_float32_angles_drift_far_out() -> None:
    for position, drift in ((1_000_000, 2e-2), (2**31 - 1, 0.5)):
        assert float(exactness.floor(position).readouts["largest error"]) > drift


def test_one_past_the_table_is_the_librarys_error() -> None:
    assert str(table.lookup(8, past_end="error").readouts["answer"]).startswith(
        "PositionOutOfRange: positions holds 8, but the"
    )
    assert table.lookup(7).readouts["answer"] == "its own row"
    assert table.lookup(12, past_end="clamp").readouts["answer"] == "the last row again, row 7"


def test_position_0_is_not_nothing() -> None:
    panel = sums.apart(position=0).panels[0]
    assert isinstance(panel, Heatmap)
    assert panel.values[1].tolist() == [0, 1, 0, 1]
    torch.testing.assert_close(panel.values[2], panel.values[0] + panel.values[1])


def test_planes_hold_their_arrows() -> None:
    for view in (rotation.shift_both(), rotation.every_pair()):
        for panel in view.panels:
            if isinstance(panel, Plane):
                assert all((a.x**2 + a.y**2) ** 0.5 <= panel.limit for a in panel.arrows)
