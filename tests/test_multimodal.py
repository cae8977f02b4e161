"""Positions of text, pictures and videos: times as fractions, and conversations that go on."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from posenc.positions import (
    COUNTINGS,
    Image,
    Text,
    Video,
    multimodal,
)

CONVERSATION = [Text(3), Image(4, 6), Text(2), Image(2, 2), Text(1)]


@pytest.mark.parametrize("seconds", [1 / 3, Fraction(1, 3)])
def test_three_thirds_of_a_second_are_one(seconds: float | Fraction) -> None:
    at, _ = multimodal([Video(7, 2, 2, seconds=seconds)], replace(COUNTINGS["qwen2.5-vl"], ids_per_second=1))
    assert at[0].tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_a_conversation_goes_on_where_it_stopped() -> None:
    whole, after = multimodal(CONVERSATION, "qwen2-vl")
    first, between = multimodal(CONVERSATION[:2], "qwen2-vl")
    rest, last = multimodal(CONVERSATION[2:], "qwen2-vl", start=between)
    assert torch.equal(torch.cat((first, rest), 1), whole)
    assert last == after
