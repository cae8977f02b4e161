"""Positions of text, pictures and videos: times as fractions, conversations, batches and packed rows."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

import posenc
from posenc.encodings.axes import chunked
from posenc.positions import (
    COUNTINGS,
    Image,
    Text,
    Video,
    left_padded_rows,
    multimodal,
    packed_rows,
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


def test_rows_in_a_batch_and_packed_are_as_alone() -> None:
    """Through attention: left-padded, packed, and each alone, up to float32 rounding."""
    rope = posenc.Rotary(8, pairing="half", axes=chunked(2, 1, 1))
    rows = [multimodal(CONVERSATION, "qwen2-vl")[0], multimodal(CONVERSATION[1:4], "qwen2-vl")[0]]
    draws = [torch.randn(3, 1, 2, row.shape[1], 8) for row in rows]
    padded, mask = left_padded_rows(rows)
    packed, segments = packed_rows(rows)
    q, k, v = torch.zeros(3, 2, 2, padded.shape[2], 8)
    for i, draw in enumerate(draws):
        for tensor, own in zip((q, k, v), draw, strict=True):
            tensor[i][:, mask[i]] = own[0]
    placed = rope.at(padded)
    batched = posenc.attention(*placed.rotate(q, k), v, placed, posenc.Mask(True, key_mask=mask))
    one_q, one_k, one_v = torch.cat(draws, -2)
    placed = rope.at(packed)
    in_a_row = posenc.attention(*placed.rotate(one_q, one_k), one_v, placed, posenc.Mask(True, q_segments=segments))
    for i, (row, (own_q, own_k, own_v)) in enumerate(zip(rows, draws, strict=True)):
        placed = rope.at(row)
        alone = posenc.attention(*placed.rotate(own_q, own_k), own_v, placed, causal=True)
        torch.testing.assert_close(batched[i][None, :, mask[i]], alone, rtol=0, atol=2e-6)
        torch.testing.assert_close(in_a_row[:, :, segments == i], alone, rtol=0, atol=2e-6)
