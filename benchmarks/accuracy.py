"""Errors of cos and sin at far positions, in posenc and in peers, relative to float64 tables from integer phases.

These tables are within 4e-10 of 200-bit arithmetic at any position (tests/test_clock.py).
"""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

import posenc
from posenc.clock import Clock
from posenc.scaling import Default

LIMITS = {"1e3": 10**3, "1e4": 10**4, "1e5": 10**5, "1e6": 10**6, "1e7": 10**7, "2^31": 2**31}
CHANNELS = 128
CosSin = Callable[[Tensor], tuple[Tensor, Tensor]]


def methods() -> dict[str, CosSin]:
    """Return all implementations of cos and sin for 64 pairs with base 10000, by name."""
    spectrum = Default().frequencies(CHANNELS, 1e4)
    found: dict[str, CosSin] = {
        "posenc, exact": Clock(spectrum),
        'posenc, phases="float32"': Clock(spectrum, "float32"),
    }
    if find_spec("transformers"):
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        llama = LlamaRotaryEmbedding(LlamaConfig(hidden_size=CHANNELS, num_attention_heads=1))

        def hugging_face(at: Tensor) -> tuple[Tensor, Tensor]:
            cos, sin = llama(torch.empty(1), at[None])
            return cos[0, :, : CHANNELS // 2], sin[0, :, : CHANNELS // 2]

        found["transformers"] = hugging_face
    if find_spec("x_transformers"):
        from x_transformers.x_transformers import RotaryEmbedding as TheirRotary

        x_transformers = TheirRotary(CHANNELS)
        found["x-transformers"] = lambda at: _from_angles(x_transformers(at)[0].reshape(len(at), -1))
    if find_spec("rotary_embedding_torch"):
        from rotary_embedding_torch import RotaryEmbedding

        embedding = RotaryEmbedding(CHANNELS, cache_if_possible=False)
        found["rotary-embedding-torch"] = lambda at: _from_angles(embedding(at.float()))
    return found


def _from_angles(angles: Tensor) -> tuple[Tensor, Tensor]:
    """Return cos and sin of angles that are stored twice, side by side."""
    return angles[..., ::2].cos(), angles[..., ::2].sin()


@torch.no_grad()
def errors() -> dict[str, dict[str, float]]:
    """Return the largest error of every method over 200 positions between half of each limit and the limit."""
    table: dict[str, dict[str, float]] = {name: {} for name in methods()}
    truth = posenc.Clock(Default().frequencies(CHANNELS, 1e4))
    for label, limit in LIMITS.items():
        at = torch.linspace(limit / 2, limit - 1, 200, dtype=torch.float64).to(torch.int64)
        exact = truth(at, torch.float64)
        for name, method in methods().items():
            got = method(at)
            table[name][label] = max(float((a.double() - b).abs().max()) for a, b in zip(got, exact, strict=True))
    return table
