"""The models of the planted ports: their configs, and their right tables by NumPy in float64, without posenc.

Each right table is a second derivation of the formula from the model's published code. A plant starts from these
numbers only where its mistake lies elsewhere.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def inverse_frequencies(base: float, pairs: int, span: int) -> Array:
    """base^(−2i/span) for i = 0 … pairs−1."""
    return base ** (-2.0 * np.arange(pairs) / span)


def llama3(theta: Array, factor: float, low: float, high: float, original: int) -> Array:
    """Slow pairs are divided by the factor, fast ones kept, and those between blended (Llama 3.1)."""
    turns = original * theta / (2 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - smooth) * theta / factor + smooth * theta


def yarn(
    theta: Array, base: float, factor: float, original: int, fast: float, slow: float, truncate: bool
) -> Array:
    """YaRN's blend by a linear ramp over the pairs' numbers (2309.00071, eq. 17 to 23, as its code has it)."""
    span = 2 * len(theta)

    def pair(rotations: float) -> float:
        return span * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair(fast), pair(slow)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, span - 1)
    ramp = np.clip((np.arange(len(theta)) - first) / max(last - first, 0.001), 0, 1)
    return theta / factor * ramp + theta * (1 - ramp)


@dataclass(frozen=True)
class Layer:
    """One layer type: D, inverse frequencies of the pairs that rotate, their channels, the factor of cos and sin.

    Args:
        distance: channels between the two of a pair with halves paired; 0 for neighbours.
        axis: the axis of every pair.
    """

    head_dim: int
    theta: Array
    distance: int
    factor: float = 1.0
    axis: Array | None = field(default=None)

    def rotate(self, x: Array, positions: Array) -> Array:
        """``(T, D)`` by positions ``(T,)`` or ``(A, T)``."""
        where = np.atleast_2d(positions)
        axis = np.zeros(len(self.theta), int) if self.axis is None else self.axis
        angles = where[axis].T * self.theta
        first, second = self.channels
        result = np.array(x, np.float64)
        result[..., first] = self.factor * (x[..., first] * np.cos(angles) - x[..., second] * np.sin(angles))
        result[..., second] = self.factor * (x[..., second] * np.cos(angles) + x[..., first] * np.sin(angles))
        return result

    @property
    def channels(self) -> tuple[Array, Array]:
        """The first and the second channel of every pair."""
        i = np.arange(len(self.theta))
        return (2 * i, 2 * i + 1) if self.distance == 0 else (i, i + self.distance)


GPT_OSS_THETA = inverse_frequencies(150_000.0, 32, 64)
DEEPSEEK_THETA = inverse_frequencies(10_000.0, 32, 64)
LAYERS: dict[str, Layer] = {
    "gemma4 full_attention": Layer(512, inverse_frequencies(1e6, 64, 512), 256),
    "gemma4 sliding_attention": Layer(256, inverse_frequencies(1e4, 128, 256), 128),
    "qwen3_5": Layer(256, inverse_frequencies(1e7, 32, 64), 32, axis=np.array([i % 3 for i in range(30)] + [0, 1])),
    "deepseek_v3": Layer(64, yarn(DEEPSEEK_THETA, 1e4, 40.0, 4096, 32, 1, True), 0),
    "llama3_1": Layer(128, llama3(inverse_frequencies(5e5, 64, 128), 8.0, 1.0, 4.0, 8192), 64),
    "gpt_oss": Layer(
        64, yarn(GPT_OSS_THETA, 150_000.0, 32.0, 4096, 32, 1, False), 32, factor=0.1 * math.log(32) + 1
    ),
    "qwen2_vl": Layer(128, inverse_frequencies(1e6, 64, 128), 64, axis=np.repeat([0, 1, 2], [16, 24, 24])),
}
"""Right layers by the model's name and, where it has two, the layer type."""

CONFIGS: dict[str, str | dict[str, Any]] = {
    "deepseek_v3": "deepseek-v3.json",
    "llama3_1": "llama-3.1-8b.json",
    "gpt_oss": "gpt-oss-20b.json",
    "qwen2_vl": "qwen2-vl-7b.json",
    "pythia": "pythia-1.4b.json",
    "gpt_j": "gpt-j-6b.json",
    "gemma3": "gemma-3-4b.json",
    "qwen_yarn": "qwen2.5-7b-yarn.json",
    "mistral": "mistral-7b.json",
    "phi3": "phi-3-mini-128k.json",
    "smollm3": "smollm3-3b.json",
    "bloom": "bloom-7b1.json",
    "mpt": "mpt-7b-storywriter.json",
    "pixtral": {
        "model_type": "pixtral",
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "image_size": 1024,
        "patch_size": 16,
        "rope_theta": 10000.0,
    },
    "gemma4": {
        "model_type": "gemma4_text",
        "hidden_size": 2816,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": 2,
        "num_hidden_layers": 6,
        "sliding_window": 1024,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
    "qwen3_5": {
        "model_type": "qwen3_5_moe_text",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
        },
    },
}
"""The configs, as released: a file of ``tests/data/configs``, or the keys about positions."""
