"""Packed and padded batches go document by document, and give what masks give, forward and backward."""

import pytest
import torch
from torch import Tensor

import posenc
from posenc import ALiBi, FoX, NoPE, Sight, attention, scores
from posenc.errors import InvalidArgument
from posenc.positions import left_padded, packed, plain

SHORT = 128
T = 2 * SHORT + 3


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is short, in the middle of what the tests have."""
    monkeypatch.setattr("posenc.sight.SHORT_DOCUMENT", SHORT)
    monkeypatch.setattr("posenc.sight.SHORT_ROW", SHORT)
    monkeypatch.setattr("posenc.sight.SHORT_PLAIN_ROW", SHORT)


def inputs(B: int, *, requires_grad: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q, x = torch.randn(B, 4, T, 8, dtype=torch.float64), torch.randn(B, T, 6, dtype=torch.float64)
    k, v = torch.randn(2, B, 2, T, 8, dtype=torch.float64)
    return x, q.requires_grad_(requires_grad), k.requires_grad_(requires_grad), v.requires_grad_(requires_grad)


def test_facts_are_found_by_looking() -> None:
    _, segments = packed([3, 2])
    assert Sight(q_segments=segments).documents == ((3, 2),)
    assert Sight(q_segments=torch.stack((segments, segments.flip(0)))).documents == ((3, 2), (2, 3))
    assert Sight(q_segments=torch.tensor([0, 1, 0])).documents is None, "a document in two parts"
    assert Sight(q_segments=segments, k_segments=segments.clone()).documents == ((3, 2),)
    assert Sight(q_segments=segments[-2:], k_segments=segments).documents is None, "the last tokens meet a cache"
    mask = torch.tensor([[False, True, True], [True, True, True], [False, False, False]])
    assert Sight(key_mask=mask).padding == (1, 0, 3)
    assert Sight(key_mask=mask.flip(1)).padding is None, "padding on the right"
    assert Sight(key_mask=torch.empty(1, 0, dtype=torch.bool)).padding is None


def test_facts_can_be_declared_where_nobody_may_look() -> None:
    segments = torch.empty(5, dtype=torch.int64, device="meta")
    assert Sight(q_segments=segments).documents is None
    assert Sight(q_segments=segments, documents=((3, 2),)).documents == ((3, 2),)
    mask = torch.empty(2, 5, dtype=torch.bool, device="meta")
    assert Sight(key_mask=mask, padding=(0, 2)).padding == (0, 2)


@pytest.mark.usefixtures("unchecked")
def test_facts_that_are_wrong_are_refused() -> None:
    _, segments = packed([3, 2])
    with pytest.raises(InvalidArgument, match=r"documents=\(\(4, 1\),\) is not what q_segments says, \(\(3,"):
        Sight(q_segments=segments, documents=((4, 1),))
    with pytest.raises(InvalidArgument, match=r"padding=\(1,\) is given without key_mask, which it describes"):
        Sight(padding=(1,))


def test_spans_leave_out_what_is_hidden_and_short_ones_are_masked() -> None:
    _, segments = packed([SHORT, SHORT + 3])
    sight = Sight(causal=True, q_segments=segments)
    assert sight.spans(T, T) == (((SHORT, True), (SHORT + 3, True)),)
    assert sight.spans(1, T) is None, "a token that meets a cache"
    assert Sight(q_segments=packed([SHORT, SHORT - 1])[1]).spans(2 * SHORT - 1, 2 * SHORT - 1) is None
    assert Sight(q_segments=segments, q_order=plain(T)).spans(T, T) is None
    mask = torch.ones(2, T, dtype=torch.bool)
    assert Sight(causal=True, key_mask=mask).spans(T, T) == (((T, True),),)
    mask[1, :3] = False
    assert Sight(causal=True, key_mask=mask).spans(T, T) == (((T, True),), ((3, False), (T - 3, True)))
    assert Sight(key_mask=mask).spans(T, T) is None, "where padding itself sees what follows"
    mask[1] = False
    assert Sight(causal=True, key_mask=mask).spans(T, T) is None


class Plain(posenc.Bias):
    """A bias with rows and nothing else, as somebody's own may be: −(key·query)/1000."""

    heads = 4

    def rows(self, first: int, last: int, keys: int, scores: Tensor | None = None) -> Tensor:
        products = torch.arange(keys)[None] * torch.arange(first, last)[:, None]
        return -products.double().expand(1, 4, -1, -1) / 1000


ENCODINGS = {
    "nope": NoPE,
    "alibi": lambda: ALiBi(4),
    "both": lambda: posenc.Stack(ALiBi(4), FoX(6, 4, bias=1.0)),
    "heads": lambda: posenc.Heads((ALiBi(2), 2), (posenc.T5(2), 2)),
    "one rank's": lambda: posenc.SomeHeads(ALiBi(8), 2, 6),
    "somebody's": NoPE,
}


def sights() -> dict[str, tuple[int, Tensor, Sight]]:
    at, segments = packed([SHORT, SHORT + 3])
    other_at, other = packed([T - 5, 5])
    mask = torch.ones(2, T, dtype=torch.bool)
    mask[0, :40] = mask[1, :1] = False
    alike = mask[:1].expand(2, -1)
    gap = torch.ones(2, T, dtype=torch.bool)
    gap[:, 7] = False
    rows = torch.stack((segments, other))
    return {
        "packed": (2, at, Sight(causal=True, q_segments=segments)),
        "packed, both ways": (1, at, Sight(q_segments=segments)),
        "rows packed otherwise": (2, torch.stack((at, other_at)), Sight(causal=True, q_segments=rows)),
        "packed with a mask": (2, at, Sight(causal=True, q_segments=segments, key_mask=gap)),
        "rows packed otherwise, one mask": (
            2,
            torch.stack((at, other_at)),
            Sight(causal=True, q_segments=rows, key_mask=gap[:1]),
        ),
        "packed with a window": (1, at, Sight(causal=True, q_segments=segments, window=9)),
        "left-padded": (2, left_padded(mask), Sight(causal=True, key_mask=mask)),
        "padded alike": (2, left_padded(alike), Sight(causal=True, key_mask=alike)),
    }


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("case", sights())
def test_spans_are_scores_forward_and_backward(case: str, name: str) -> None:
    """Where gradients of gates and tables flow too; float64, biases of ALiBi in float32 apart."""
    B, at, sight = sights()[case]
    assert sight.spans(T, T) is not None
    x, q, k, v = inputs(B)
    torch.manual_seed(1)
    encoding = ENCODINGS[name]().double()
    here = encoding.at(at, dtype=torch.float64)[0].read(x)[0]
    if name == "somebody's":
        here.bias = Plain()
    y = attention(q, k, v, here, sight)
    with torch.no_grad():
        torch.testing.assert_close(attention(q, k, v, here, sight), y, rtol=0, atol=1e-12)
    dense = scores(q, k, here, sight)
    weights = (dense - dense.amax(-1, keepdim=True).clamp(min=-1e300)).exp()
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    want = weights @ v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(y, want, rtol=0, atol=1e-11)
    wanted = [q, k, v, *encoding.parameters()]
    weight = torch.randn_like(y)
    got, theirs = (torch.autograd.grad((out * weight).sum(), wanted, retain_graph=True) for out in (y, want))
    for mine, other in zip(got, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-10 * (1 + other.abs().max().item()))


def test_padding_gets_zeros() -> None:
    mask = torch.ones(1, T, dtype=torch.bool)
    mask[0, :5] = False
    _, q, k, v = inputs(1)
    y = attention(q, k, v, NoPE().at(left_padded(mask)), Sight(causal=True, key_mask=mask))
    assert not y[:, :, :5].any()
    assert y[:, :, 5:].all()
