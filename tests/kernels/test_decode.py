"""A decoding step: how many operator calls positions cost a model of many layers, and attention over its cache."""

import os

import pytest
import torch
from benchmarks.decode import LAYERS
from torch.autograd.profiler import profile

import posenc
from posenc import Rotary
from support.operators import Operators, entered

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.mark.usefixtures("native_built")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_a_step_calls_about_half_the_operators_that_transformers_calls(pairing: str, dtype: torch.dtype) -> None:
    transformers = pytest.importorskip("transformers")
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    q, k = torch.randn(1, 32, 1, 128).to(dtype), torch.randn(1, 8, 1, 128).to(dtype)
    at = torch.tensor([1000])
    theirs = llama.LlamaRotaryEmbedding(transformers.LlamaConfig(hidden_size=4096, num_attention_heads=32))
    rotary = Rotary(128, pairing=pairing)
    with torch.no_grad(), profile() as calls:
        cos, sin = theirs(q, at[None])
        for _ in range(LAYERS):
            llama.apply_rotary_pos_emb(q, k, cos, sin)
    with torch.no_grad(), profile() as ours:
        placed = rotary.at(at)
        for _ in range(LAYERS):
            placed.rotate(q, k)
    counts = [sum(event.cpu_parent is None for event in run.function_events) for run in (ours, calls)]
    assert counts[0] + LAYERS <= 0.6 * counts[1], counts  # the native kernel is called once a layer; 116 of 524


HOUSE = os.path.dirname(posenc.__file__)


def step(
    name: str, heads: int = 8, groups: int = 2
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, posenc.Placed]:
    q, k, v = torch.randn(2, heads, 1, 16), *torch.randn(2, 2, groups, 64, 16)
    encoding = posenc.encoding(name, width=heads * 16, heads=heads, head_dim=16)
    return q, k, v, encoding.at(torch.tensor([63]), torch.arange(64))


@pytest.mark.parametrize(("name", "most"), {"nope": 48, "alibi": 80, "t5": 84}.items())
def test_attention_over_a_cache_is_a_few_calls_of_python(name: str, most: int) -> None:
    """Counted, as time is not the same twice: 43, 75 and 79 of ours."""
    q, k, v, placed = step(name)
    with torch.no_grad():
        posenc.attention(q, k, v, placed, causal=True)
        codes = entered(lambda: posenc.attention(q, k, v, placed, causal=True))
    # Types are checked by wrappers in tests, which are not counted.
    ours = [code for code in codes if code.co_filename.startswith(HOUSE) and "check_" not in code.co_name]
    assert len(ours) <= most


@pytest.mark.parametrize("name", ["nope", "alibi", "t5", "fire"])
@pytest.mark.parametrize("mask", [posenc.Mask(causal=True), posenc.Mask(causal=True, window=9)])
def test_heads_of_one_query_that_share_keys_are_rows_of_one(name: str, mask: posenc.Mask) -> None:
    """Keys are read once for all of them; the same numbers, and nothing is turned round."""
    q, k, v, placed = step(name)
    with torch.no_grad(), Operators() as operators:
        y = posenc.attention(q, k, v, placed, mask)
    assert [one.args[0] for one in operators.attention] == [(2, 2, 4, 16)]
    assert not any("flip" in name for name in operators.names)
    want = posenc.scores(q, k, placed, mask).softmax(-1) @ v.repeat_interleave(4, 1)
    torch.testing.assert_close(y, want, rtol=0, atol=2e-6)
