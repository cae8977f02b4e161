"""A decoding step: how many operator calls positions cost a model of many layers."""

import os

import pytest
import torch
from benchmarks.decode import LAYERS, Calls

from posenc import Rotary

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
    with torch.no_grad(), Calls() as calls:
        cos, sin = theirs(q, at[None])
        for _ in range(LAYERS):
            llama.apply_rotary_pos_emb(q, k, cos, sin)
    with torch.no_grad(), Calls() as ours:
        placed = rotary.at(at)
        for _ in range(LAYERS):
            placed.rotate(q, k)
    assert ours.count <= 0.6 * calls.count  # 208, 272, 242, 306 of 521 to 523
