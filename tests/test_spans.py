"""Packed and padded batches go document by document, and give what masks give, forward and backward."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import posenc
from posenc import ALiBi, FoX, Mask, NoPE, attention
from posenc.attend.ways import spans
from posenc.laws.effects import defined
from posenc.positions import arange, left_padded, packed
from support.attending import same_gradients

SHORT = 128
T = 2 * SHORT + 3


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is short, in the middle of what the tests have."""
    for name in ("SHORT_DOCUMENT", "SHORT_ROW", "SHORT_PLAIN_ROW"):
        monkeypatch.setattr(f"posenc.attend.ways.{name}", SHORT)


def inputs(B: int, *, requires_grad: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, x = torch.randn(B, 4, T, 8, dtype=torch.float64), torch.randn(B, T, 6, dtype=torch.float64)
    k, v = torch.randn(2, B, 2, T, 8, dtype=torch.float64)
    return x, q.requires_grad_(requires_grad), k.requires_grad_(requires_grad), v.requires_grad_(requires_grad)


SEGMENTS = packed([3, 2])[1]
LEFT = torch.tensor([[False, True, True], [True, True, True], [False, False, False]])


@pytest.mark.parametrize(
    ("mask", "lengths", "padding"),
    [
        (Mask(q_segments=SEGMENTS), ((3, 2),), None),
        (Mask(q_segments=torch.stack((SEGMENTS, SEGMENTS.flip(0)))), ((3, 2), (2, 3)), None),
        (Mask(q_segments=torch.tensor([0, 1, 0])), None, None),  # a document in two parts
        (Mask(q_segments=SEGMENTS, k_segments=SEGMENTS.clone()), ((3, 2),), None),
        (Mask(q_segments=SEGMENTS[-2:], k_segments=SEGMENTS), None, None),  # the last tokens meet a cache
        (Mask(key_mask=LEFT), None, (1, 0, 3)),
        (Mask(key_mask=LEFT.flip(1)), None, None),  # padding on the right
        (Mask(key_mask=torch.empty(1, 0, dtype=torch.bool)), None, None),
    ],
)
def test_facts_are_found_by_looking(mask: Mask, lengths: Any, padding: Any) -> None:
    assert (mask.document_lengths, mask.left_padding) == (lengths, padding)


def test_facts_can_be_declared_where_nobody_may_look() -> None:
    segments = torch.empty(5, dtype=torch.int64, device="meta")
    assert Mask(q_segments=segments).document_lengths is None
    assert Mask(q_segments=segments, document_lengths=((3, 2),)).document_lengths == ((3, 2),)
    mask = torch.empty(2, 5, dtype=torch.bool, device="meta")
    assert Mask(key_mask=mask, left_padding=(0, 2)).left_padding == (0, 2)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "reordered, as beams are": lambda x: x[torch.tensor([2, 0, 1])],
    "a microbatch": lambda x: x[1:],
    "repeated": lambda x: x.repeat_interleave(2, 0),
    "cut": lambda x: x[..., : T - 5],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_mask_mapped_by_tree_map_is_looked_at_again(change: str) -> None:
    """What was found in some tensors, or declared of them, says nothing of others."""
    keys = torch.arange(T) >= torch.tensor([[5], [SHORT + 2], [0]])
    segments = (torch.arange(T) >= torch.tensor([[SHORT], [SHORT + 2], [SHORT + 1]])).long()
    _, q, k, v = (x.detach()[[0, 1, 2]] for x in inputs(3))
    for facts in ({"key_mask": keys}, {"q_segments": segments}, {"q_segments": segments, "key_mask": keys}):
        mapped = tree_map(CHANGES[change], Mask(causal=True, **facts))
        want = Mask(causal=True, **{name: CHANGES[change](x) for name, x in facts.items()})
        assert (mapped.document_lengths, mapped.left_padding) == (want.document_lengths, want.left_padding)
        assert mapped.document_lengths or mapped.left_padding
        tensors = [x[:, :, : T - 5] if change == "cut" else CHANGES[change](x) for x in (q, k, v)]
        placed = ALiBi(4).at(arange(tensors[0].shape[2]))
        assert torch.equal(attention(*tensors, placed, mapped), attention(*tensors, placed, want))


def test_anything_may_stand_in_the_place_of_a_mask_s_tensors() -> None:
    mask = Mask(causal=True, key_mask=torch.ones(2, 5, dtype=torch.bool), q_segments=torch.arange(5))
    changes = (lambda x: 0, lambda x: None, lambda x: x.shape, lambda x: x[0], lambda x: x.to("meta"))
    assert [tree_map(change, mask).left_padding for change in changes] == [None] * 5


def test_what_was_declared_holds_for_those_tensors_alone() -> None:
    """Nobody may look at them; a copy of the structure with the very same tensors still knows it."""
    mask = Mask(key_mask=torch.empty(2, 5, dtype=torch.bool, device="meta"), left_padding=(0, 2))
    assert tree_map(lambda x: x, mask).left_padding == (0, 2)
    assert tree_map(lambda x: x.flip(0), mask).left_padding is None
    leaves, structure = tree_flatten(mask)
    del mask
    assert tree_unflatten([x.clone() for x in leaves], structure).left_padding is None


LONG_ONES = packed([SHORT, SHORT + 3])[1]
KEYS = torch.ones(2, T, dtype=torch.bool)
PADDED = torch.arange(T) >= torch.tensor([[0], [3]])


@pytest.mark.parametrize(
    ("mask", "queries", "keys", "want"),
    [
        (Mask(causal=True, q_segments=LONG_ONES), T, T, (((SHORT, True), (SHORT + 3, True)),)),
        (Mask(causal=True, q_segments=LONG_ONES), 1, T, None),  # a token that meets a cache
        (Mask(q_segments=packed([SHORT, SHORT - 1])[1]), 2 * SHORT - 1, 2 * SHORT - 1, None),
        (Mask(q_segments=LONG_ONES, q_order=arange(T)), T, T, None),
        (Mask(causal=True, key_mask=KEYS), T, T, (((T, True),),)),
        (Mask(causal=True, key_mask=PADDED), T, T, (((T, True),), ((3, False), (T - 3, True)))),
        (Mask(key_mask=PADDED), T, T, None),  # where padding itself sees what follows
        (Mask(causal=True, key_mask=KEYS & torch.tensor([[True], [False]])), T, T, None),
    ],
)
def test_spans_leave_out_what_is_hidden_and_short_ones_are_masked(
    mask: Mask, queries: int, keys: int, want: Any
) -> None:
    assert spans(mask, queries, keys) == want


class Plain(posenc.Bias):
    """A bias with rows and nothing else, as somebody's own may be: −(key·query)/1000."""

    heads = 4

    def rows(self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0) -> Tensor:
        products = torch.arange(start, keys)[None] * torch.arange(first, last)[:, None]
        return -products.double().expand(1, 4, -1, -1) / 1000


ENCODINGS = {
    "nope": NoPE,
    "alibi": lambda: ALiBi(4),
    "both": lambda: posenc.Stack(ALiBi(4), FoX(6, 4, bias=1.0)),
    "somebody's": NoPE,
}


def masks() -> dict[str, tuple[int, Tensor, Mask]]:
    at, segments = packed([SHORT, SHORT + 3])
    other_at, other = packed([T - 5, 5])
    mask = torch.arange(T) >= torch.tensor([[40], [1]])
    alike = mask[:1].expand(2, -1)
    gap = (torch.arange(T) != 7).expand(2, -1)
    rows = torch.stack((segments, other))
    return {
        "packed": (2, at, Mask(causal=True, q_segments=segments)),
        "packed, both ways": (1, at, Mask(q_segments=segments)),
        "rows packed otherwise": (2, torch.stack((at, other_at)), Mask(causal=True, q_segments=rows)),
        "packed with a mask": (2, at, Mask(causal=True, q_segments=segments, key_mask=gap)),
        "rows packed otherwise, one mask": (
            2,
            torch.stack((at, other_at)),
            Mask(causal=True, q_segments=rows, key_mask=gap[:1]),
        ),
        "packed with a window": (1, at, Mask(causal=True, q_segments=segments, window=9)),
        "left-padded": (2, left_padded(mask), Mask(causal=True, key_mask=mask)),
        "padded alike": (2, left_padded(alike), Mask(causal=True, key_mask=alike)),
    }


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (case, name)
        for i, case in enumerate(masks())
        for j, name in enumerate(ENCODINGS)
        if (i + i // 4 + j) % 2 == 0
    ],
)
def test_spans_are_scores_forward_and_backward(case: str, name: str) -> None:
    """Where gradients of gates and tables flow too; float64, biases of ALiBi in float32 apart."""
    B, at, mask = masks()[case]
    assert spans(mask, T, T) is not None
    x, q, k, v = inputs(B)
    encoding = ENCODINGS[name]().double()
    if encoding.causal and not mask.causal:
        return
    here = encoding.at(at, dtype=torch.float64)[0].with_content(x)[0]
    if here.causal and not mask.causal:
        pytest.skip("for causal models alone")
    if name == "somebody's":
        here.bias = Plain()
    y = attention(q, k, v, here, mask)
    with torch.no_grad():
        torch.testing.assert_close(attention(q, k, v, here, mask), y, rtol=0, atol=1e-12)
    want, _ = defined(q, k, v, here, mask)
    torch.testing.assert_close(y, want, rtol=0, atol=1e-11)
    same_gradients(y, want, [q, k, v, *encoding.parameters()], 1e-10, 1e-10)
