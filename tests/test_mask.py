"""Mask, who may see whom: the short form, orders, segments of both sides, and every way to get it wrong."""

import numpy as np
import pytest
import torch

import posenc
from posenc import Mask, NoPE, attention
from posenc.errors import InvalidArgument
from posenc.mask import CAUSAL, EVERYTHING
from posenc.positions import arange
from support.checking import annotations_unchecked

CPU = torch.device("cpu")


def seen(mask: Mask, T: int, S: int) -> list[list[int]]:
    """The keys that every query sees."""
    return [row.nonzero().flatten().tolist() for row in mask.visible(T, S, CPU)[0, 0]]


def test_the_short_form_is_a_mask_whose_sequences_end_together() -> None:
    assert Mask.of(None, True) is CAUSAL
    assert Mask.of(None) is EVERYTHING
    assert seen(Mask.of(None, True, 2), 4, 4) == seen(Mask(causal=True, window=2), 4, 4)
    assert EVERYTHING.visible(2, 3, CPU) is None
    assert seen(CAUSAL, 2, 4) == [[0, 1, 2], [0, 1, 2, 3]]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_orders_of_narrow_integers_do_not_come_round(dtype: torch.dtype) -> None:
    far = torch.tensor([0, 50, 100, 120]) if dtype == torch.uint8 else torch.tensor([-100, 0, 100, 120])
    assert seen(Mask(causal=True, q_order=far.to(dtype)), 4, 4) == seen(CAUSAL, 4, 4)
    assert seen(Mask(causal=True, window=30, q_order=far.to(dtype)), 4, 4) == [[0], [1], [2], [2, 3]]


def test_keys_have_the_queries_order_and_segments_unless_given() -> None:
    row = torch.tensor([0, 0, 1])
    mask = Mask(causal=True, q_segments=row)
    assert mask.k_segments is mask.q_segments
    assert seen(mask, 3, 3) == [[0], [0, 1], [2]]
    assert seen(Mask(causal=True, q_segments=row[2:], k_segments=row), 1, 3) == [[2]]


def test_the_narrower_of_two_windows_holds() -> None:
    assert CAUSAL.within(None) is CAUSAL
    assert CAUSAL.within(4).window == 4
    assert CAUSAL.within(4).within(9).window == 4
    assert CAUSAL.within(9).within(4).window == 4
    whole = Mask(causal=True, q_segments=torch.arange(9) // 3)
    narrow = whole.within(4)
    assert (whole.window, narrow.window) == (None, 4)
    assert narrow.q_segments is whole.q_segments, "a window a layer copies no tensors and looks at none"
    assert narrow.document_lengths == ((3, 3, 3),)
    with annotations_unchecked():
        assert whole.within(np.int64(4)).window == Mask(window=np.int64(4)).window == 4
        assert type(Mask(window=np.int32(4), chunk=torch.tensor(3)).chunk) is int
    for wrong, message in ((0, "at least 1"), (True, "an integer")):
        with pytest.raises(InvalidArgument, match=f"window={wrong} must be {message}"):
            whole.within(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"causal": 1}, "causal=1 must be True or False"),
        ({"window": 0}, "window=0 must be at least 1, or None for no window"),
        ({"window": 2.0}, "window=2.0 must be an integer"),
        ({"window": (32, 64)}, r"window=\(32, 64\) must be one integer; for windows with two sizes, pass dense="),
        ({"k_order": torch.arange(3)}, "k_order is given without q_order"),
        ({"k_segments": torch.arange(3)}, "k_segments is given without q_segments"),
        ({"q_order": torch.arange(3.0)}, "q_order is torch.float32; expected integers"),
        ({"q_segments": torch.ones(3, dtype=torch.bool)}, "q_segments is torch.bool; expected integers"),
        ({"key_mask": torch.ones(1, 3)}, r"key_mask is torch.float32 with shape \(1, 3\); expected bool"),
        ({"key_mask": torch.ones(3, dtype=torch.bool)}, r"expected bool \(B, S\)"),
        ({"q_order": torch.tensor(3)}, "q_order is a single number, 3; expected one number per query"),
        (
            {"bidirectional_groups": torch.tensor(3)},
            "bidirectional_groups is a single number, 3; expected one number per key",
        ),
        ({"chunk": 0}, "chunk=0 must be at least 1, or None for no chunk"),
        ({"bidirectional_groups": torch.ones(3)}, r"pass bidirectional_groups.long\(\)"),
        ({"dense": torch.zeros(1, 1, 3, 3)}, "pass dense == 0"),
        ({"dense": torch.ones(1, 3, 3).bool()}, r"pass dense\[:, None\] for one mask per row of the batch"),
        (
            {"q_segments": torch.tensor([0, 0, 0, 1, 1]), "document_lengths": ((4, 1),)},
            r"document_lengths=\(\(4, 1\),\) does not match q_segments",
        ),
        ({"left_padding": (1,)}, r"left_padding=\(1,\) is given without key_mask, which it describes"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_mask_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Mask(**arguments)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused_where_it_is_used() -> None:
    q = torch.randn(2, 2, 3, 4)
    at = NoPE().at(arange(3))
    for mask, message in [
        (
            Mask(q_order=torch.arange(4)),
            r"q_order has shape \(4,\); expected \(3,\) or .* one per query",
        ),
        (Mask(q_segments=torch.zeros(3, 3, dtype=torch.int64)), r"q_segments has shape \(3, 3\)"),
        (Mask(key_mask=torch.ones(2, 4, dtype=torch.bool)), r"key_mask has shape \(2, 4\); .* one per key"),
        (Mask(q_order=torch.arange(3, device="meta")), "q_order is on meta but q is on cpu; move q_order"),
        ("causal", r"mask is 'causal'; expected posenc.Mask\(…\): use .*; for causality alone, write causal=True"),
        (True, r"mask is True; expected posenc.Mask\(…\): use .*; for causality alone, write causal=True"),
        (torch.ones(2, 3), r"mask is torch.float32 \(2, 3\) on cpu; expected posenc.Mask\(…\): use posenc"),
        (torch.ones(1, 1, 3, 3), r"posenc.Mask\(dense=…\) for a tensor \(B, H, T, S\)"),
        (Mask(dense=torch.ones(1, 3, 3, 3).bool()), r"dense has shape \(1, 3, 3, 3\); expected \(2, 2, 3, 3\)"),
        (
            Mask(bidirectional_groups=torch.zeros(2).long()),
            r"bidirectional_groups has shape \(2,\); expected \(3,\)",
        ),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            attention(q, q, q, at, mask)
    for short in ({"causal": True}, {"window": 2}):
        with pytest.raises(InvalidArgument, match="cannot be combined with a mask; set causal and window"):
            attention(q, q, q, at, Mask(), **short)
    with pytest.raises(InvalidArgument, match="causal=1 must be True or False"):
        attention(q, q, q, at, causal=1)


GIVEN = {
    "q_order": torch.arange(12).flip(0),
    "q_segments": torch.arange(12) // 5,
    "key_mask": torch.arange(12)[None] >= torch.tensor([[3], [0]]),
}


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", [*GIVEN, "k_order", "k_segments"])
def test_what_tensors_are_changed_to_afterwards_is_not_followed(
    name: str, inference: bool, long: bool, request: pytest.FixtureRequest
) -> None:
    """As a loop that packs or decodes changes them: neither in attention nor, a step later, in its gradient."""
    if long:  # for the sizes here: documents and padded rows are attended to one by one, the rest in blocks
        request.getfixturevalue("small_blocks")

    def attended(when: str) -> list[torch.Tensor]:
        side = name if name in GIVEN else name.replace("k_", "q_")
        own = {side: GIVEN[side].clone(), name: GIVEN[side].clone()}
        mask, leaves = Mask(causal=True, **own), [x.detach() for x in torch.randn(3, 2, 2, 12, 4)]
        for moment in ("before", "between"):
            if moment == when:
                own[name].copy_(own[name].flip(-1) if name == "key_mask" else torch.arange(12) // 2)
            if moment == "before":
                leaves = leaves if inference else [x.requires_grad_() for x in leaves]
                y = attention(*leaves, posenc.ALiBi(2).at(arange(12)), mask)
        return [y.detach(), *(() if inference else torch.autograd.grad(y.square().sum(), leaves))]

    with torch.inference_mode(inference):
        outcomes = []
        for when in ("never", "before", "between"):
            torch.manual_seed(0)
            outcomes.append(attended(when))
    torch.testing.assert_close(outcomes[1] + outcomes[2], 2 * outcomes[0], rtol=0, atol=0)


def test_empty_slots_of_a_cache_are_not_where_sequences_end() -> None:
    """A static cache with a mask alone would let its queries stand at the last slots, and see the wrong keys."""
    q, k, v = torch.randn(3, 1, 2, 8, 4)
    at, mask = NoPE().at(arange(2), arange(8)), (arange(8) < 4)[None]
    with pytest.raises(InvalidArgument, match="key_mask hides the last of 8 keys, but the last key and the last"):
        attention(q[:, :, 2:4], k, v, at, Mask(causal=True, key_mask=mask))
    told = Mask(causal=True, q_order=arange(2, offset=2), k_order=arange(8), key_mask=mask)
    want = attention(q[:, :, :4], k[:, :, :4], v[:, :, :4], NoPE().at(arange(4)), causal=True)[:, :, 2:]
    torch.testing.assert_close(attention(q[:, :, 2:4], k, v, at, told), want)


@pytest.mark.usefixtures("small_blocks")
def test_a_padded_query_sees_the_real_keys_of_its_group() -> None:
    """As the scores say: padding hides keys, and a group reaches past causality."""
    q, placed = torch.randn(1, 2, 16, 4), posenc.ALiBi(2).at(torch.arange(16))
    groups = torch.full((16,), -1)
    groups[[3, 12]] = 0
    mask = posenc.Mask(causal=True, key_mask=torch.arange(16)[None] >= 5, bidirectional_groups=groups)
    want = posenc.scores(q, q, placed, mask).softmax(-1).nan_to_num() @ q
    torch.testing.assert_close(posenc.attention(q, q, q, placed, mask), want)
