"""The lessons' pictures say the lessons' numbers: sums, the counter, the four properties."""

import math

import pytest
import torch

from posenc.teaching.lab.rooms import find
from posenc.teaching.views import counter, four, sums


def test_the_pages_numbers_are_those_of_the_view() -> None:
    assert sums.recovered(512, 200, 64, 0) == pytest.approx((1.0, 0.94), abs=0.01)
    assert sums.recovered(8, 200, 64, 0) == pytest.approx((0.5, 0.125), abs=0.02)


def test_a_linear_reading_is_what_the_share_counts() -> None:
    content, code = sums.codebooks(16, 5, 7, 3)
    nearest = torch.cdist(content[:, None] + code, content).argmin(-1)  # of every word at every position
    right = int((nearest == torch.arange(5)[:, None]).sum())
    assert sums.recovered(16, 5, 7, 3)[0] == pytest.approx(right / 35)


def test_bits_count_and_hands_are_half_as_fast_each() -> None:
    bits, hands = counter.bits_and_hands(bits=5, positions=32).panels
    assert (bits.values.T @ (2.0 ** torch.arange(5)).double()).tolist() == list(range(32))
    for i in range(4):  # hand i at 2p is hand i + 1 at 4p
        assert torch.allclose(hands.values[i, :16], hands.values[i + 1, ::2], atol=1e-12)


def test_a_model_of_4096_can_be_drawn_at_a_million() -> None:
    assert find("scaling").answer({"factor": "256", "method": "linear"}).readouts["pairs slowed by 256 times"] == 64


@pytest.mark.parametrize(
    ("encoding", "known"),
    [
        ("nope", {"closest": 0.0, "growth": 1.0, "trend": 0.0, "unseen": 0.875}),
        ("learned", {"growth": 1.0, "unseen": 1.0}),
        ("alibi", {"trend": -1.0}),
    ],
)
def test_properties_that_are_known_come_out_so(encoding: str, known: dict[str, float]) -> None:
    found = four.four(encoding)
    assert {name: getattr(found, name) for name in known} == pytest.approx(known, abs=1e-12)


def test_alibis_penalty_is_its_steepest_slope_times_the_distance() -> None:
    found = four.four("alibi")
    # 4 heads: slopes 1/4 … 1/256. Two neighbours differ by every slope, for each of the words.
    slopes = torch.tensor([2.0 ** -(2 * h) for h in (1, 2, 3, 4)], dtype=torch.float64)
    assert found.closest == pytest.approx(float(slopes.norm()) * math.sqrt(four.WORDS), rel=1e-9)
    assert found.growth == pytest.approx(four.FAR / (four.LENGTH - 1), rel=1e-6)
