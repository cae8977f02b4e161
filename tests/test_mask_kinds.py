"""Chunks, groups that see both ways and dense masks: as transformers has them, and beside all else a mask says."""

import itertools
import math
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import masking_utils

import posenc
from posenc import Layers, Mask, NoPE, Rotary, attention, scores
from posenc.attend.remapped import RemappedMask
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read
from posenc.positions import arange

CPU = torch.device("cpu")
Theirs = Any


def config(**settings: Any) -> Any:
    model = transformers.LlamaConfig(hidden_size=8, num_attention_heads=1, num_hidden_layers=1)
    model._attn_implementation = "eager"
    for name, value in settings.items():
        setattr(model, name, value)
    return model


def theirs(make: Theirs, B: int, T: int, padding: Tensor | None = None, **more: Any) -> Tensor:
    """What a function of transformers' masking_utils lets every query see, (B, T, T)."""
    settings = {name: more.pop(name) for name in ("sliding_window", "attention_chunk_size") if name in more}
    mask = make(config(**settings), torch.zeros(B, T, 8), padding, None, **more)
    seen: Tensor = mask[:, 0] == 0
    return seen


def ours(mask: Mask, B: int, T: int) -> Tensor:
    visible = mask.visible(T, T, CPU)
    return visible.expand(B, 1, T, T)[:, 0]


PADDING = torch.ones(2, 11, dtype=torch.bool)
PADDING[1, :4] = False
GROUPS = torch.tensor([[-1, 0, 0, 0, -1, -1, 1, 1, 1, 1, -1], [-1] * 5 + [0] * 6])
CASES: dict[str, tuple[Mask, Theirs, dict[str, Any]]] = {
    "chunks": (Mask(causal=True, chunk=4), masking_utils.create_chunked_causal_mask, {"attention_chunk_size": 4}),
    "chunks after padding": (
        Mask(causal=True, chunk=4, key_mask=PADDING),
        masking_utils.create_chunked_causal_mask,
        {"attention_chunk_size": 4, "padding": PADDING},
    ),
    "pictures": (
        Mask(causal=True, bidirectional_groups=GROUPS),
        masking_utils.create_causal_mask,
        {"block_sequence_ids": GROUPS},
    ),
    "pictures within a window": (
        Mask(causal=True, window=3, bidirectional_groups=GROUPS, key_mask=PADDING),
        masking_utils.create_sliding_window_causal_mask,
        {"block_sequence_ids": GROUPS, "sliding_window": 3, "padding": PADDING},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_masks_are_those_of_transformers(case: str) -> None:
    mask, make, more = CASES[case]
    want = theirs(make, 2, 11, **more)
    rows = PADDING[:, :, None] if "padding" in more else torch.ones(2, 11, 1, dtype=torch.bool)
    assert torch.equal(ours(mask, 2, 11) & rows, want & rows)  # what padding sees is nobody's business


def test_gemma_3_groups_its_pictures_as_its_own_code_does() -> None:
    from transformers.models.gemma3.modeling_gemma3 import get_block_sequence_ids_for_mask

    kinds = torch.tensor([[0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0]])
    assert torch.equal(get_block_sequence_ids_for_mask(kinds), GROUPS[:1])


def by_hand(T: int, S: int, say: dict[str, Any]) -> Tensor:
    """A mask of one sequence by loops over pairs, from the sentences of its documentation."""
    seen = torch.zeros(T, S, dtype=torch.bool)
    segments, padding = say["segments"], say["key_mask"]
    groups, dense, chunk, window = say["groups"], say["dense"], say["chunk"], say["window"]
    starts: dict[int, int] = {}
    for j in range(S):
        document = 0 if segments is None else int(segments[j])
        if (padding is None or padding[j]) and document not in starts:
            starts[document] = j
    for t, j in itertools.product(range(T), range(S)):
        i = S - T + t
        ahead = j - i
        sees = (not say["causal"] or ahead <= 0) and (window is None or -window < ahead < window)
        sees = sees or (groups is not None and groups[i] >= 0 and groups[i] == groups[j])
        documents = [0, 0] if segments is None else [int(segments[i]), int(segments[j])]
        sees = sees and documents[0] == documents[1] and (padding is None or bool(padding[j]))
        if chunk is not None and sees:
            start = starts[documents[0]]
            sees = max(0, i - start) // chunk == max(0, j - start) // chunk  # padding is of the first
        if say["range"] is not None:
            at, first, last = say["range"]
            sees = sees and (first is None or at[j] >= first[t]) and (last is None or at[j] < last[t])
        seen[t, j] = sees and (dense is None or bool(dense[t, j]))
    return seen


@st.composite
def said(draw: st.DrawFn) -> tuple[int, int, dict[str, Any]]:
    S = draw(st.integers(1, 9))
    T = draw(st.integers(1, S))
    maybe = lambda values: draw(st.none() | values)  # noqa: E731
    row = lambda values: st.lists(values, min_size=S, max_size=S).map(torch.tensor)  # noqa: E731
    bounds = st.none() | st.lists(st.integers(-4, 12), min_size=T, max_size=T).map(torch.tensor)
    positions = maybe(st.tuples(row(st.integers(-4, 12)), bounds, bounds).filter(lambda x: x[1:] != (None, None)))
    dense = maybe(st.lists(row(st.booleans()), min_size=T, max_size=T).map(torch.stack))
    return (
        T,
        S,
        {
            "causal": draw(st.booleans()),
            "window": maybe(st.integers(1, 5)),
            "chunk": maybe(st.integers(1, 5)),
            "segments": maybe(row(st.integers(-3, 2).map(lambda n: n << 40))),
            "key_mask": maybe(row(st.booleans())),
            "groups": maybe(row(st.integers(-1, 2))),
            "dense": dense,
            "range": positions,
        },
    )


def made(T: int, say: dict[str, Any]) -> Mask:
    segments, padding, dense = say["segments"], say["key_mask"], say["dense"]
    at, first, last = say["range"] or (None, None, None)
    mask = Mask(
        say["causal"],
        window=say["window"],
        chunk=say["chunk"],
        q_segments=None if segments is None else segments[len(segments) - T :],
        k_segments=segments,
        key_mask=None if padding is None else padding[None],
        bidirectional_groups=say["groups"],
        dense=None if dense is None else dense[None, None],
    )
    return mask if at is None else mask.become(RemappedMask, k_positions=at, q_from=first, q_until=last)


@given(said())
def test_everything_composes(drawn: tuple[int, int, dict[str, Any]]) -> None:
    """Whole, block by block, as FlexAttention is told it, and for rows alone, against loops over pairs."""
    T, S, say = drawn
    mask, want = made(T, say), by_hand(T, S, say)
    visible = mask.visible(T, S, CPU)
    got = torch.ones(1, 1, T, S, dtype=torch.bool) if visible is None else visible.expand(1, 1, T, S)
    assert torch.equal(got[0, 0], want)
    first, (_, keys) = T // 2, mask.key_range(0, T, T, S)
    assert not want[:, keys:].any()
    assert not want[first:, : mask.key_range(first, T, T, S)[0]].any()
    block = mask.block(mask.known(T, S, CPU), first, T, keys, min(1, keys))
    if block is not None:
        assert torch.equal(block[0, 0].expand(T - first, -1), want[first:, min(1, keys) : keys])
    sees, at = mask.modifier(T, S, CPU), torch.tensor
    for t, j in itertools.product(range(T), range(S)) if sees is not None else ():
        assert bool(sees(at(0), at(0), at(t), at(j))) == bool(want[t, j])
    if say["causal"] and say["key_mask"] is not None and not say["key_mask"][-1]:
        return  # refused: it would be the last query's own key
    q = torch.randn(1, 2, T, 4, dtype=torch.float64)
    k, v = torch.randn(2, 1, 1, S, 4, dtype=torch.float64)
    placed = NoPE().at(arange(T, offset=S - T), arange(S))
    weights = (q @ k.mT / 2).masked_fill(~want, -math.inf).softmax(-1).nan_to_num(0.0)
    torch.testing.assert_close(attention(q, k, v, placed, mask), weights @ v, rtol=0, atol=1e-12)


def test_chunks_are_attended_to_one_by_one_and_a_short_row_has_none() -> None:
    q, k, v = torch.randn(3, 2, 2, 128, 8)
    placed, mask = NoPE().at(arange(128)), Mask(causal=True, chunk=40)
    assert posenc.explain(q, k, v, placed, mask).backend == "documents"
    want = scores(q, k, placed, mask).softmax(-1) @ v
    torch.testing.assert_close(attention(q, k, v, placed, mask), want)
    assert posenc.explain(q, k, v, placed, Mask(causal=True, chunk=128)).backend == "sdpa"
    step = NoPE().at(arange(1, offset=127), arange(128))
    last = attention(q[:, :, 127:], k, v, step, mask)
    torch.testing.assert_close(last, want[:, :, 127:])


@pytest.mark.parametrize("chunk", [3, 4, 8])
def test_padding_is_of_the_first_chunk(chunk: int) -> None:
    q = torch.randn(1, 1, 5, 4)
    mask = Mask(chunk=chunk, key_mask=torch.arange(5)[None] >= 2)
    y = attention(q, q, q, NoPE().at(arange(5)), mask)
    torch.testing.assert_close(y[:, :, 0], (q[:, :, :1] @ q[:, :, 2:].mT / 2).softmax(-1)[:, :, 0] @ q[0, :, 2:])


def test_ranks_count_chunks_as_their_orders_do() -> None:
    q, k, v = torch.randn(3, 1, 2, 12, 8)
    whole = attention(q, k, v, NoPE().at(arange(12)), Mask(causal=True, chunk=5))
    shard = torch.tensor([1, 4, 6, 11])
    mask = Mask(causal=True, chunk=5, q_order=shard, k_order=arange(12))
    got = attention(q[:, :, shard], k, v, NoPE().at(shard, arange(12)), mask)
    torch.testing.assert_close(got, whole[:, :, shard])


def test_layers_say_which_of_them_see_chunks() -> None:
    rope = Rotary(8, pairing="half")
    layers = Layers({"rope": rope, "nope": NoPE()}, ("rope", "nope"), chunks={"rope": 4}, windows={"nope": 3})
    q, k, v = torch.randn(3, 1, 2, 9, 8)
    placed = layers.at(arange(9))
    for i, mask in ((0, Mask(causal=True, chunk=4)), (1, Mask(causal=True, window=3))):
        bare = (rope, NoPE())[i].at(arange(9))
        rotated = placed[i].rotate(q, k)
        want = attention(*rotated, v, bare, mask)
        torch.testing.assert_close(attention(*rotated, v, placed[i], causal=True), want)
    assert "chunk 4" in layers.describe()
    assert "chunks={'rope': 4}" in repr(layers)
    for wrapped in (posenc.Stack(rope, posenc.ALiBi(4)), posenc.ALiBi(4)):
        placed = Layers({"one": wrapped}, ("one",), chunks={"one": 4}).at(arange(9))[0].slice_heads(0, 2)
        want = attention(q, k, v, wrapped.at(arange(9)).slice_heads(0, 2), Mask(causal=True, chunk=4))
        torch.testing.assert_close(attention(q, k, v, placed, causal=True), want)
    with pytest.raises(InvalidArgument, match="chunk=5 of the mask differs from chunk=4 of the layer; omit"):
        attention(q, k, v, layers.at(arange(9))[0], Mask(causal=True, chunk=5))


def test_llama_4_is_read_with_its_chunks() -> None:
    """Against the mask that transformers makes for a layer of that type."""
    text = transformers.Llama4TextConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_hidden_layers=4
    )
    text.attention_chunk_size = 3
    positions = read({**text.to_dict(), "rope_theta": 5e5})
    assert positions.chunk == 3
    placed = positions.as_layers().at(arange(8))
    for i, kind in enumerate(text.layer_types):
        mask = Mask(causal=True).within(placed[i].window, placed[i].chunk)
        make = {
            "chunked_attention": masking_utils.create_chunked_causal_mask,
            "full_attention": masking_utils.create_causal_mask,
        }
        assert torch.equal(ours(mask, 1, 8), theirs(make[kind], 1, 8, attention_chunk_size=3)), i


@pytest.mark.parametrize("window", [None, 3])
def test_a_layer_without_a_window_breaks_no_graph(window: int | None) -> None:
    mask = Mask(causal=True, window=window)
    compiled = torch.compile(lambda x: x * (mask.within(None).window or 0), backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == (window or 0)


def test_groups_of_a_shard_are_refused() -> None:
    q, k, v = torch.randn(3, 1, 2, 4, 8)
    mask = Mask(causal=True, q_order=arange(2), k_order=arange(4), bidirectional_groups=torch.zeros(4).long())
    with pytest.raises(InvalidArgument, match="it is unknown which keys belong to the 2 queries"):
        attention(q[:, :, :2], k, v, NoPE().at(arange(2), arange(4)), mask)
