"""Caches whose keys move, against the model itself: one layer, read again from the tokens that remain."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import posenc
from posenc.errors import InvalidArgument, PosencError
from posenc.integrations.huggingface import patched, read
from posenc.integrations.huggingface.cache import MovableCache, RingCache
from posenc.remap import DCA, STRING, ReRoPE, SelfExtend
from support.small_models import small
from support.tiny_models import MODELS, SIZES, rope, sharp, tiny

IDS = torch.randint(3, 64, (2, 96), generator=torch.Generator().manual_seed(0))
CACHE = (
    "cache" if "cache" in inspect.signature(transformers.LlamaForCausalLM.forward).parameters else "past_key_values"
)
"""What transformers calls a cache: it has another name from 5.24 on."""


def one_layer(**more: Any) -> nn.Module:
    """Llama of one layer in float64, sharp enough that a wrong position shows; its angles are float32."""
    sizes = {**SIZES, **rope("default", 1e4), "num_hidden_layers": 1, **more}
    return sharp(transformers.LlamaForCausalLM, sizes).double()


def encoding(model: Any) -> posenc.Encoding:
    return read(model.config).as_layers()


def fed(model: nn.Module, cache: MovableCache, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return model(ids, **{CACHE: cache}).logits


def again(model: nn.Module, *parts: Tensor) -> Tensor:
    """The logits of the last part, when all are read at once, from position 0."""
    with torch.no_grad():
        return model(torch.cat(parts, 1)).logits[:, -parts[-1].shape[1] :]


def close(actual: Tensor, expected: Tensor) -> None:
    """A float32 angle below 128 rad errs by 2^-17, in a query and in a key; the logits are of order 10."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=10 * 2 * 2**-17)


@pytest.mark.parametrize(
    ("slots", "sinks", "wrap", "step"), [(16, 3, None, 1), (17, 0, 34, 1), (16, 3, 34, 5), (17, 0, None, 5)]
)
def test_a_ring_reads_sinks_and_the_last_tokens(slots: int, sinks: int, wrap: int | None, step: int) -> None:
    """In constant memory every step has the logits of what remains, read again, and of keys that are moved."""
    model = one_layer()
    ring = RingCache(encoding(model), slots=slots, sinks=sinks, wrap=wrap)
    moved = MovableCache(encoding(model))
    fed(model, ring, IDS[:, :20])
    fed(model, moved, IDS[:, :20])
    for start in range(20, 72, step):
        left = slots - step
        moved.select(torch.cat((torch.arange(sinks), torch.arange(sinks - left, 0) + moved.get_seq_length())))
        logits = fed(model, ring, IDS[:, start : start + step])
        last = IDS[:, start - left + sinks : start]
        close(logits, again(model, IDS[:, :sinks], last, IDS[:, start : start + step]))
        close(logits, fed(model, moved, IDS[:, start : start + step]))
        (layer,) = ring.layers
        assert (layer.keys.shape, layer.values.shape) == ((2, 2, slots, 16), (2, 2, slots, 16))
        assert wrap is None or ring.get_seq_length() < wrap


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_of_a_ring_round_twice_at_most(dtype: torch.dtype) -> None:
    """After 10 times that positions went back: no drift, in any type. A rounding of a pair is below half an ulp of
    its length, of which each channel has 2^-8 in bfloat16 and 2^-24 in float32."""
    rotary = posenc.Rotary(16, pairing="half")
    cache = RingCache(rotary, slots=8, sinks=2, wrap=16)
    raw = torch.randn(1, 1, 90, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for token in range(90):
        at = torch.tensor([cache.get_seq_length()])
        keys, _ = cache.update(
            posenc.rerotate(raw[:, :, token : token + 1], at, posenc.NoPE(), rotary).to(dtype), raw[:, :, :1], 0
        )
    there = torch.cat((torch.arange(2), torch.arange(84, 90)))
    exact = posenc.rerotate(raw[:, :, there], torch.arange(8) + int(at) - 7, posenc.NoPE(), rotary)
    length = exact.unflatten(-1, (2, 8)).norm(dim=-2).repeat(1, 1, 1, 2)
    ulp = torch.finfo(dtype).eps / 2
    assert ((keys.double() - exact).abs() <= 3.1 * 2**0.5 * ulp * length).all()


@pytest.mark.parametrize("family", ["gemma3", "gpt-oss"])
def test_models_generate_with_a_ring(family: str) -> None:
    """What ``generate`` writes, far past the ring, is what keys that are moved write token by token."""
    model = tiny(family)
    prompt, positions = IDS[:1, :20], read(model.config).as_layers()
    out = model.generate(
        prompt,
        **{CACHE: RingCache(positions, slots=24, sinks=3)},
        max_new_tokens=30,
        min_new_tokens=30,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )
    moved, logits = MovableCache(positions), []
    for token in (prompt, *out.sequences[:, 20:49].split(1, dim=1)):
        if (held := moved.get_seq_length()) >= 24:
            moved.select(torch.cat((torch.arange(3), torch.arange(4, held))))
        logits.append(fed(model, moved, token)[:, -1])
    expected = torch.stack(logits)
    torch.testing.assert_close(torch.stack(out.logits), expected, rtol=0, atol=1e-4 * expected.abs().max().item())


def test_a_shift_and_a_passage_put_elsewhere() -> None:
    model = one_layer()
    rotary, last = encoding(model), IDS[:, 90:]
    cache = MovableCache(rotary)
    fed(model, cache, IDS[:, :40])
    cache.select(torch.cat((torch.arange(4), torch.arange(20, 40))))  # context shift
    passage = MovableCache(rotary)
    fed(model, passage, IDS[:, 50:60])
    cache.append(passage)
    cache.select(torch.cat((torch.arange(24, 34), torch.arange(24))))  # the passage comes first
    close(fed(model, cache, last), again(model, IDS[:, 50:60], IDS[:, :4], IDS[:, 20:40], last))
    empty = MovableCache(rotary)
    empty.append(passage)
    close(fed(model, empty, last), again(model, IDS[:, 50:60], last))


@pytest.mark.parametrize("wrap", [None, 34])
def test_a_remapped_model_streams_from_raw_keys(wrap: int | None) -> None:
    model = one_layer()
    remapped = ReRoPE(encoding(model), 7)
    cache = RingCache(remapped, slots=17, sinks=3, wrap=wrap)
    with patched(model, remapped):
        fed(model, cache, IDS[:, :20])
        for first, last in ((20, 24), (24, 35), (35, 36), (36, 37), (37, 40)):
            fed(model, cache, IDS[:, first:last])
        close(fed(model, cache, IDS[:, 40:45]), again(model, IDS[:, :3], IDS[:, 31:40], IDS[:, 40:45]))


def test_a_chunk_longer_than_the_ring_sees_what_is_there_and_itself() -> None:
    """11 tokens, in a ring of 10 beside its sinks, at which positions go back."""
    model = one_layer()
    cache = RingCache(encoding(model), slots=12, sinks=2, wrap=24)
    fed(model, cache, IDS[:, :20])
    close(fed(model, cache, IDS[:, 20:31]), again(model, IDS[:, :2], IDS[:, 10:20], IDS[:, 20:31]))
    close(fed(model, cache, IDS[:, 31:32]), again(model, IDS[:, :2], IDS[:, 22:31], IDS[:, 31:32]))
    cache.reset()
    assert cache.get_seq_length() == 0
    close(fed(model, cache, IDS[:, :9]), again(model, IDS[:, :9]))


ROTARY = posenc.Rotary(16, pairing="half")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RingCache(ROTARY, slots=4, sinks=4), "sinks=4 must be 0 or more, and below slots=4"),
        (lambda: RingCache(ROTARY, slots=9, wrap=17), "wrap=17 must be at least 18, twice slots=9"),
        (lambda: RingCache(None, slots=9), r"encoding is None; expected .* huggingface.read\(config\).as_layers"),
        (lambda: MovableCache(read(one_layer().config)), r"encoding is ModelPositions\(…\); expected an encoding"),
        (lambda: MovableCache(posenc.Learned(16, 8)), "cached keys of learned cannot be moved"),
        (
            lambda: MovableCache(ROTARY).append(transformers.DynamicCache()),
            "passage is DynamicCache.*; expected a Mova",
        ),
        (
            lambda: one_layer().generate(
                IDS[:1], **{CACHE: RingCache(ROTARY, slots=200)}, prompt_lookup_num_tokens=3, max_new_tokens=9
            ),
            "cannot take tokens back.* generate without assistant_model|a cache that can be cropped",
        ),
        (
            lambda: (fed(one_layer(), ring := RingCache(ROTARY, slots=200), IDS), ring.crop(-1)),
            "cannot take tokens back.* generate without assistant_model",
        ),
        (
            lambda: fed(model := small("deepseek_v3"), MovableCache(encoding(model)), IDS),
            "use .* DynamicCache for them",
        ),
        (
            lambda: fed(model := small("qwen3_5_text"), MovableCache(encoding(model)), IDS),
            "model has recurrent layers",
        ),
    ],
)
def test_what_cannot_move_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError if "cropped" in message else InvalidArgument, match=message):
        call()


def test_a_ring_serves_distances_alone() -> None:
    """Positions in it grow, and with them groups, chunks and scales: not those of the keys that remain."""
    rotary = posenc.Rotary(16, pairing="half")
    for stands in (SelfExtend(rotary, 2, 4), DCA(rotary, 6, 2), posenc.QueryScale()):
        for encoding in (stands, posenc.Stack(stands, posenc.NoPE()), posenc.Layers({"a": stands}, ("a",))):
            with pytest.raises(
                InvalidArgument, match=f"{stands.name}, which depends on positions.* use MovableCache"
            ):
                RingCache(encoding, slots=9)
    for distances in (rotary, ReRoPE(rotary, 4), STRING(rotary, 4, 2), posenc.NoPE()):
        RingCache(distances, slots=9)


def test_generate_is_refused_a_cache_with_dropped_tokens() -> None:
    """It counts every token that it was given, and would feed some again."""
    model = one_layer()
    cache = MovableCache(encoding(model))
    fed(model, cache, IDS[:, :10])
    cache.select(torch.arange(9, -1, -1))  # nothing was dropped
    model.generate(IDS[:, :11], **{CACHE: cache}, max_new_tokens=1, pad_token_id=0)
    cache.select(torch.arange(1, cache.get_seq_length()))
    for call in (model.generate, copy.deepcopy(model).generate):
        with pytest.raises(InvalidArgument, match=r"generate counts all tokens, .* has dropped"):
            call(IDS[:, :11], **{CACHE: cache}, max_new_tokens=1, pad_token_id=0)
    fed(model, cache, IDS[:, 11:12])
    cache.reset()
    model.generate(IDS[:, :11], **{CACHE: cache}, max_new_tokens=1, pad_token_id=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "slots",
    [[0, 1], torch.tensor([0, -1]), torch.tensor([0, 10]), torch.arange(10) < 5, torch.tensor([[0, 9]]), 1.0],
)
def test_slots_that_are_none_are_refused(slots: Any) -> None:
    model = one_layer()
    cache = MovableCache(encoding(model))
    fed(model, cache, IDS[:, :10])
    with pytest.raises(PosencError, match="slots"):
        cache.select(slots)


@pytest.mark.parametrize("family", ["llama-2-yarn", "gemma3", "phi", "gpt-oss", "qwen2_vl_text"])
def test_families_read_chunks_from_raw_keys_as_whole(family: str) -> None:
    """Kinds of layers, windows, attention factors, partial rotation, sinks and axes of the model."""
    model = tiny(family) if family in MODELS else small(family)
    cache = MovableCache(read(model.config).as_layers())
    with torch.no_grad():
        whole = model(IDS)[0]
        chunks = [model(chunk, **{CACHE: cache})[0] for chunk in IDS.split(32, dim=1)]
    torch.testing.assert_close(torch.cat(chunks, 1), whole, rtol=0, atol=1e-4 * whole.abs().max().item())
