"""A rotary engine in NumPy by somebody who has read docs/vectors.md and nothing else."""

import math
from typing import Any

import numpy as np


class Engine:
    """Rotates as a Hugging Face config says, with whatever is stated in place of it."""

    def __init__(self, config: dict[str, Any], pairing: str = "half", **instead: Any) -> None:
        rope = {**config, **(config.get("rope_scaling") or {}), **instead}
        self.pairing = pairing
        self.head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.rotary_dim = d = int(self.head_dim * rope.get("partial_rotary_factor", 1.0))
        i = np.arange(d // 2)
        theta = rope["rope_theta"] ** (-2 * i / d)
        s, L = rope.get("factor", 1.0), rope.get("original_max_position_embeddings", 0)
        kind, self.factor = rope.get("rope_type", "default"), 1.0
        if kind == "linear":
            theta = theta / s
        if kind == "yarn":
            low, high = (d * math.log(L / (2 * math.pi * r)) / (2 * math.log(rope["rope_theta"])) for r in (32, 1))
            low, high = max(math.floor(low), 0), min(math.ceil(high), d - 1)
            keep = 1 - np.clip((i - low) / (high - low), 0, 1)
            if rope.get("ramp") == "rotations":
                keep = np.clip((L * theta / (2 * math.pi) - 1) / (32 - 1), 0, 1)
            theta = theta / s * (1 - keep) + theta * keep
            self.factor = rope.get("attention_factor") or 0.1 * math.log(s) + 1
        if kind == "llama3":
            low, high, wave = rope["low_freq_factor"], rope["high_freq_factor"], 2 * math.pi / theta
            g = (L / wave - low) / (high - low)
            mixed = (1 - g) * theta / s + g * theta
            theta = np.where(wave > L / low, theta / s, np.where(wave < L / high, theta, mixed))
        self.theta = theta.astype(np.float32)

    def tables(self, positions: Any) -> tuple[Any, Any]:
        angles = np.asarray(positions, np.float32)[:, None] * self.theta
        return self.factor * np.cos(angles), self.factor * np.sin(angles)

    def rotate(self, layer_type: str, query: Any, positions: Any) -> Any:
        cos, sin = self.tables(positions[0])
        x, d = np.tile(np.asarray(query), (len(cos), 1)), self.rotary_dim
        half = self.pairing == "half"
        first, second = (slice(0, d // 2), slice(d // 2, d)) if half else (slice(0, d, 2), slice(1, d, 2))
        turned = x.copy()
        turned[:, first] = x[:, first] * cos - x[:, second] * sin
        turned[:, second] = x[:, first] * sin + x[:, second] * cos
        return turned
