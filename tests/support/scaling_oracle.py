"""Computes the frequencies of a scaling with the functions of transformers, without a model."""

from types import SimpleNamespace
from typing import Any

import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from posenc.scaling import Frequencies


def theirs(
    rope_type: str, rotary_dim: int, base: float, length: int = 4096, seq_len: int | None = None, **parameters: Any
) -> tuple[list[float], float]:
    """Return the frequencies and the attention factor; ``length`` is max_position_embeddings."""
    config = SimpleNamespace(
        rope_parameters={"rope_type": rope_type, "rope_theta": base, **parameters},
        head_dim=rotary_dim,
        hidden_size=rotary_dim,
        num_attention_heads=1,
        max_position_embeddings=length,
        standardize_rope_params=lambda: None,
    )
    if rope_type == "default":
        frequencies, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        frequencies, factor = ROPE_INIT_FUNCTIONS[rope_type](config, torch.device("cpu"), seq_len=seq_len)
    return frequencies.tolist(), factor


def check_same(ours: Frequencies, theirs: tuple[list[float], float]) -> None:
    """Assert that all frequencies and the attention factor are equal to the last bit."""
    frequencies, factor = theirs
    assert list(ours.float32) == frequencies
    assert ours.attention_factor == factor
