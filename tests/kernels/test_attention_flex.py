"""FlexAttention with our modifiers gives what ``posenc.scores`` says, and calls on a GPU wait for nothing."""

import sys

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import posenc
from posenc import T5, ALiBi, Mask, Stack, attention, positions
from posenc import scores as scores_of
from posenc.attend.blocks import ROWS
from posenc.attend.call import AttentionCall
from posenc.encodings.alibi import LinearBias
from posenc.kernels.attention import flex
from posenc.kernels.attention.flex import alibi_score_mod
from support.operators import Operators

pytestmark = pytest.mark.usefixtures(
    "unchecked"
)  # a checker of annotations cannot be traced with a mask's predicate

attend = sys.modules["posenc.attend.ways"]
HEADS, T, S = 6, 3, 8


def scores(score_mod) -> Tensor:
    """What the modifier adds to a score of 0, for one batch row."""
    zero, row = torch.zeros(()), torch.tensor(0)
    return torch.stack(
        [
            torch.stack([score_mod(zero, row, h, i, j) for i in torch.arange(T) for j in torch.arange(S)])
            for h in torch.arange(HEADS)
        ]
    ).view(HEADS, T, S)


@pytest.mark.parametrize("rows", [False, True])
def test_alibi_with_a_cache(rows: bool) -> None:
    alibi, keys = ALiBi(HEADS), positions.arange(S)
    k_positions = keys[None] if rows else keys
    q_positions = k_positions[..., -T:]
    want = -alibi.slopes[:, None, None] * (keys[None] - keys[-T:, None]).abs()
    torch.testing.assert_close(scores(alibi_score_mod(alibi.slopes, q_positions, k_positions)), want)


def test_a_table_of_offsets_and_sums_of_biases() -> None:
    """T5 has an end, so that nobody looks at positions; sums have what their parts have."""
    t5 = T5(HEADS, buckets=4, max_distance=3).requires_grad_(False)
    k_positions = 2 * positions.arange(S)
    for encoding in (t5, Stack(t5, ALiBi(HEADS))):
        bias = encoding.at(k_positions[-T:], k_positions).bias
        torch.testing.assert_close(scores(bias.modifier), bias.rows(0, T, S)[0], rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_layers_share_a_block_mask_until_the_mask_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def counting(*args, **settings):
        counted.append(1)
        return create_block_mask(*args, **settings)

    monkeypatch.setattr(flex, "compiled", lambda: (flex_attention, counting))
    q, k, v = torch.randn(3, 1, HEADS, S, 16, generator=torch.Generator().manual_seed(0))
    placed = posenc.NoPE().at(positions.arange(S))

    def attended(mask: Mask) -> Tensor:
        return flex.flexible(q, k, v, None, mask.modifier(S, S, q.device), 0.25, tuple(vars(mask).values()))[0]

    masks = [Mask(causal=True, q_segments=torch.arange(S) // n) for n in (3, 5)]
    for mask in masks:
        for layer_mask in (mask, mask, mask.within(2)):
            torch.testing.assert_close(attended(layer_mask), attention(q, k, v, placed, layer_mask))
    assert len(counted) == 4
    masks[0].q_segments.zero_()
    torch.testing.assert_close(attended(masks[0]), attention(q, k, v, placed, causal=True))
    assert len(flex._BLOCK_MASKS) <= flex.FEW


def hiding(length: int, cached: int) -> dict[str, Mask]:
    """Everything that can hide a key, for the tokens after ``cached`` ones."""
    mask = torch.stack((torch.arange(length) >= 4, torch.arange(length) != 7))
    segments = torch.arange(length) // 60
    rows = torch.stack((segments, segments.flip(0)))
    order = torch.arange(length).flip(0)
    return {
        "nothing": Mask(),
        "padding": Mask(causal=True, key_mask=mask),
        "a window": Mask(causal=True, window=9),
        "a window both ways": Mask(window=9),
        "documents": Mask(causal=True, q_segments=segments[cached:], k_segments=segments),
        "documents by row": Mask(q_segments=rows[:, cached:], k_segments=rows),
        "an order": Mask(causal=True, q_order=order[cached:], k_order=order),
        "chunks": Mask(causal=True, chunk=70, key_mask=mask),
        "pictures": Mask(causal=True, window=9, bidirectional_groups=segments - 1),
        "a mask a head": Mask(causal=True, dense=torch.rand(2, 4, length - cached, length) < 0.5),
    }


REST = [pytest.param(*each, marks=pytest.mark.slow) for each in [("nope", 0), ("nope", 30), ("alibi", 30)]]
TELLING = ("nothing", "padding", "documents by row", "pictures", "a mask a head")
HIDING = [pytest.param(name, marks=() if name in TELLING else pytest.mark.slow) for name in hiding(9, 0)]


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention takes calls, uncompiled and on the CPU, and no other way does before it."""
    monkeypatch.setattr(attend, "serves", lambda q, v: True)
    monkeypatch.setattr(attend, "fused", lambda q, k, v: False)
    monkeypatch.setattr(flex, "compiled", lambda: (flex_attention, create_block_mask))
    monkeypatch.setattr(attend, "spans", lambda mask, T, S, biased: None)
    monkeypatch.setattr(AttentionCall, "line", None)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize(("name", "case", "softcap"), [("alibi", "padding", None), ("nope", "pictures", 1.5)])
def test_flex_attention_caps_scores_and_gives_the_logsumexp(name: str, case: str, softcap: float | None) -> None:
    length = ROWS + 40
    at, mask = positions.arange(length), hiding(length, 0)[case]
    q, (k, v) = torch.randn(2, 4, length, 16), torch.randn(2, 2, 2, length, 16)
    placed, sinks = posenc.encoding(name, heads=4, head_dim=16).at(at), torch.randn(4)
    asked = {"softcap": softcap, "return_logsumexp": True}
    assert posenc.explain(q, k, v, placed, mask, **asked).backend == "flex"
    with torch.no_grad():
        got, lse = attention(q, k, v, placed, mask, **asked)
        dense = scores_of(q, k, placed, mask, softcap=softcap)
        torch.testing.assert_close(lse, dense.logsumexp(-1))
        torch.testing.assert_close(got, dense.softmax(-1).nan_to_num(0.0) @ v.repeat_interleave(2, dim=1))
        sunk = attention(q, k, v, placed, mask, softcap=softcap, sinks=sinks)
        weights = scores_of(q, k, placed, mask, softcap=softcap, sinks=sinks).softmax(-1)[..., :length]
        torch.testing.assert_close(sunk, weights @ v.repeat_interleave(2, dim=1))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("case", HIDING)
@pytest.mark.parametrize(("name", "cached"), [("alibi", 0), *REST])
def test_what_gpus_are_given_is_scores(name: str, case: str, cached: int) -> None:
    """The way that calls with masks take on CUDA, run uncompiled on the CPU."""
    length = ROWS + 40
    at, mask = positions.arange(length, offset=1000), hiding(length, cached)[case]
    q, (k, v) = torch.randn(2, 4, length - cached, 16), torch.randn(2, 2, 2, length, 16)
    placed = posenc.encoding(name, heads=4, head_dim=16).at(at[cached:], at)
    with torch.no_grad():
        got = attention(q, k, v, placed, mask)
        want = scores_of(q, k, placed, mask).softmax(-1).nan_to_num(0.0) @ v.repeat_interleave(2, dim=1)
    unmasked = (name, case) == ("nope", "nothing")
    assert posenc.explain(q, k, v, placed, mask).backend == ("sdpa" if unmasked else "flex")
    torch.testing.assert_close(got, want)


def test_nobody_waits_nor_loops_where_nobody_may_look() -> None:
    """Fake tensors have no values, as those of a GPU are not there yet: one call of torch's attention, or one for
    each declared document, and an assertion that holds positions to what they are taken to be."""
    with FakeTensorMode(), Operators() as operators:
        at, q = torch.arange(400), torch.empty(1, 4, 400, 64, dtype=torch.bfloat16)
        placed = posenc.Placed(at, at, bias=LinearBias(torch.ones(4), at, at))
        assert attention(q, q, q, placed, causal=True).shape == q.shape
        whole = operators.attention
        packed = Mask(causal=True, q_segments=at // 200, document_lengths=((200, 200),))
        assert attention(q, q, q, placed, packed).shape == q.shape
    assert len(whole) == 1
    assert len(operators.attention) == 3
    assert sum("_assert_async" in name for name in operators.names) == 3


@pytest.mark.parametrize("compiling", [False, True])
def test_masks_on_a_gpu_have_a_type_that_its_kernels_take(compiling: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Booleans where no bias is added, else the queries' type; seen on meta tensors, which are not the CPU's, in
    eager mode and in what a compiler traces."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    sdpa, given = torch.nn.functional.scaled_dot_product_attention, []

    def spying(q, k, v, attn_mask=None, *args, **kwargs):
        given.append(attn_mask)
        return sdpa(q, k, v, attn_mask, *args, **kwargs)

    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("posenc.attend.call.sdpa", spying)
        at = torch.arange(64, device="meta")
        q = torch.empty(1, 4, 64, 64, dtype=torch.bfloat16, device="meta")
        bias = LinearBias(torch.ones(4, device="meta"), at, at)
        mask = Mask(causal=True, window=8)
        attention(q, q, q, posenc.Placed(at, at), mask)
        attention(q, q, q, posenc.Placed(at, at, bias=bias), mask)
    assert [x.dtype for x in given] == [torch.bool, torch.bfloat16]
    assert given[0].shape[1] == 1
