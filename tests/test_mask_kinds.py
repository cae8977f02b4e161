"""Chunks, groups that see both ways and layers of both: as transformers has them."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import masking_utils

import posenc
from posenc import Layers, Mask, NoPE, Rotary, attention, scores
from posenc.errors import InvalidArgument
from posenc.positions import arange

CPU = torch.device("cpu")
Theirs = Any


def config(**settings: Any) -> Any:
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1}
    return transformers.LlamaConfig(**sizes, attn_implementation="eager", **settings)


def theirs(make: Theirs, B: int, T: int, padding: Tensor | None = None, **more: Any) -> Tensor:
    """What a function of transformers' masking_utils lets every query see, (B, T, T)."""
    settings = {name: more.pop(name) for name in ("sliding_window", "attention_chunk_size") if name in more}
    mask = make(config(**settings), torch.zeros(B, T, 8), padding, None, **more)
    seen: Tensor = mask[:, 0] == 0
    return seen


def ours(mask: Mask, B: int, T: int) -> Tensor:
    return mask.visible(T, T, CPU).expand(B, 1, T, T)[:, 0]


PADDING = torch.arange(11) >= torch.tensor([[0], [4]])
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


def test_chunks_are_attended_to_one_by_one_and_a_short_row_has_none() -> None:
    q, k, v = torch.randn(3, 2, 2, 128, 8)
    placed, mask = NoPE().at(arange(128)), Mask(causal=True, chunk=40)
    assert posenc.explain(q, k, v, placed, mask).backend == "documents"
    want = scores(q, k, placed, mask).softmax(-1) @ v
    torch.testing.assert_close(attention(q, k, v, placed, mask), want)
    assert posenc.explain(q, k, v, placed, Mask(causal=True, chunk=128)).backend == "sdpa"
    step = NoPE().at(arange(1, offset=127), arange(128))
    torch.testing.assert_close(attention(q[:, :, 127:], k, v, step, mask), want[:, :, 127:])


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
    with pytest.raises(InvalidArgument, match="the mask's chunk=5 differs from the layer's chunk=4; omit"):
        attention(q, k, v, layers.at(arange(9))[0], Mask(causal=True, chunk=5))


@pytest.mark.parametrize("window", [None, 3])
def test_a_layer_without_a_window_breaks_no_graph(window: int | None) -> None:
    mask = Mask(causal=True, window=window)
    compiled = torch.compile(lambda x: x * (mask.within(None).window or 0), backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == (window or 0)


def test_groups_of_a_shard_are_refused() -> None:
    q, k, v = torch.randn(3, 1, 2, 4, 8)
    mask = Mask(causal=True, q_order=arange(2), k_order=arange(4), bidirectional_groups=torch.zeros(4).long())
    with pytest.raises(
        InvalidArgument, match="for 2 queries and 4 keys, because the groups of the queries are unknown"
    ):
        attention(q[:, :, :2], k, v, NoPE().at(arange(2), arange(4)), mask)
