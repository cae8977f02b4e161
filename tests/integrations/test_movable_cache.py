"""Caches whose keys move, against the model itself: one layer, read again from the tokens that remain."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import posenc
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import patched, read
from posenc.integrations.huggingface.cache import MovableCache
from posenc.remap import ReRoPE
from posenc.scaling import DynamicNTK
from support.tiny_models import SIZES, rope, tiny

IDS = torch.randint(3, 64, (2, 96), generator=torch.Generator().manual_seed(0))
BOTH = pytest.mark.parametrize("raw", [False, True], ids=["moved", "raw"])


def one_layer(**more: Any) -> nn.Module:
    """Llama of one layer in float64, sharp enough that a wrong position shows; its angles are float32."""
    torch.manual_seed(0)
    sizes = {**SIZES, **rope("default", 1e4), "num_hidden_layers": 1, **more}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 2 * parameter.shape[1] ** -0.5)
    return model.double()


def encoding(model: Any) -> posenc.Encoding:
    return read(model.config).as_layers()


def fed(model: nn.Module, cache: MovableCache, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return model(ids, past_key_values=cache).logits


def again(model: nn.Module, *parts: Tensor) -> Tensor:
    """The logits of the last part, when all are read at once, from position 0."""
    with torch.no_grad():
        return model(torch.cat(parts, 1)).logits[:, -parts[-1].shape[1] :]


def close(actual: Tensor, expected: Tensor) -> None:
    """A float32 angle below 128 rad errs by 2^-17, in a query and in a key; the logits are of order 10."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=10 * 2 * 2**-17)


@BOTH
@pytest.mark.parametrize("step", [1, 5])
def test_sinks_and_a_window_read_what_remains(raw: bool, step: int) -> None:
    """In constant memory, every step has the logits of sinks, window and new tokens read again."""
    model = one_layer()
    cache = MovableCache(encoding(model), capacity=12, sinks=3, raw=raw)
    fed(model, cache, IDS[:, :20])
    for start in range(20, 60, step):
        logits = fed(model, cache, IDS[:, start : start + step])
        close(logits, again(model, IDS[:, :3], IDS[:, start - 9 : start], IDS[:, start : start + step]))
        (layer,) = cache.layers
        assert layer.keys.shape == layer.values.shape == (2, 2, 12, 16)
        assert layer.keys.untyped_storage().nbytes() == layer.keys.nbytes


@BOTH
def test_a_shift_and_a_passage_put_elsewhere(raw: bool) -> None:
    model = one_layer()
    rotary, last = encoding(model), IDS[:, 90:]
    cache = MovableCache(rotary, raw=raw)
    fed(model, cache, IDS[:, :40])
    cache.select(torch.cat((torch.arange(4), torch.arange(20, 40))))  # context shift
    passage = MovableCache(rotary, raw=not raw)
    fed(model, passage, IDS[:, 50:60])
    cache.append(passage)
    cache.select(torch.cat((torch.arange(24, 34), torch.arange(24))))  # the passage comes first
    close(fed(model, cache, last), again(model, IDS[:, 50:60], IDS[:, :4], IDS[:, 20:40], last))
    empty = MovableCache(rotary, raw=raw)
    empty.append(passage)
    close(fed(model, empty, last), again(model, IDS[:, 50:60], last))


def test_a_remapped_model_streams_from_raw_keys() -> None:
    model = one_layer()
    remapped = ReRoPE(encoding(model), 7)
    cache = MovableCache(remapped, capacity=12, sinks=3)
    with patched(model, remapped):
        fed(model, cache, IDS[:, :40])
        close(fed(model, cache, IDS[:, 40:45]), again(model, IDS[:, :3], IDS[:, 31:40], IDS[:, 40:45]))


@BOTH
def test_stale_keys_follow_the_plan(raw: bool) -> None:
    """transformers grows the base of dynamic NTK as a text grows and leaves cached keys at the old one."""
    dynamic = rope("dynamic", 1e4, factor=2.0)
    model = one_layer(**dynamic, max_position_embeddings=32)
    plain = posenc.Rotary(16, pairing="half")
    cache = MovableCache(plain, raw=raw, scaling=DynamicNTK(2.0, 32))
    stale = transformers.DynamicCache()
    for start in range(0, 90, 15):
        logits = fed(model, cache, IDS[:, start : start + 15])
        left = fed(model, stale, IDS[:, start : start + 15])
        whole = again(one_layer(**dynamic, max_position_embeddings=32), IDS[:, : start + 15])[:, start:]
        close(logits, whole)
    assert (left - whole).abs().max() > 0.1


def test_what_cannot_move_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="capacity=4 has no room behind sinks=4"):
        MovableCache(posenc.Rotary(16, pairing="half"), capacity=4, sinks=4)


@pytest.mark.parametrize("family", ["llama-2-yarn", "gemma3", "phi", "gpt-oss"])
def test_families_read_chunks_from_raw_keys_as_whole(family: str) -> None:
    """Kinds of layers, windows, attention factors, partial rotation and sinks of the model."""
    model = tiny(family)
    cache = MovableCache(read(model.config).as_layers())
    with torch.no_grad():
        whole = model(IDS).logits
        chunks = [model(chunk, past_key_values=cache).logits for chunk in IDS.split(32, dim=1)]
    torch.testing.assert_close(torch.cat(chunks, 1), whole, rtol=0, atol=1e-4 * whole.abs().max().item())
