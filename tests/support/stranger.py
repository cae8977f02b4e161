"""A rotary engine in NumPy for a layer type in a file of vectors, written only after docs/vectors.md."""

from collections.abc import Mapping
from typing import Any

import numpy as np

FLOAT = np.float64


def clipped(x: Any) -> Any:
    return np.minimum(np.maximum(x, 0.0), 1.0)


class Engine:
    """Rotates as the header of a layer type states, except for the values in ``instead``."""

    def __init__(self, layer: Mapping[str, Any], **instead: Any) -> None:
        self.d, self.pairing = layer["rotary_dim"], instead.pop("pairing", layer["pairing"])
        self.axes = np.array(instead.pop("axes", layer["axes"]))
        self.rope = {**layer["parameters"], **instead}
        b = self.rope["rope_theta"]
        self.pair = np.arange(self.d // 2)
        self.plain = FLOAT(b) ** (-2 * self.pair / self.d)
        kind = self.rope["rope_type"]
        self.theta = getattr(self, f"of_{kind}")().astype(np.float32)
        self.a = FLOAT(self.factor_of_yarn() if kind == "yarn" else self.rope.get("attention_factor", 1.0))

    def of_default(self) -> Any:
        return self.plain

    def of_linear(self) -> Any:
        return self.plain / self.rope["factor"]

    def of_longrope(self) -> Any:
        return self.plain / np.array(self.rope["long_factor"])

    def of_proportional(self) -> Any:
        turning = int(self.rope["partial_rotary_factor"] * len(self.pair))
        return np.where(self.pair < turning, self.plain / self.rope.get("factor", 1.0), 0.0)

    def of_llama3(self) -> Any:
        s, length = self.rope["factor"], self.rope["original_max_position_embeddings"]
        low, high = self.rope["low_freq_factor"], self.rope["high_freq_factor"]
        wave = 2 * np.pi / self.plain
        g = (length / wave - low) / (high - low)
        between = (1 - g) * self.plain / s + g * self.plain
        return np.where(wave > length / low, self.plain / s, np.where(wave < length / high, self.plain, between))

    def of_yarn(self) -> Any:
        s, length = self.rope["factor"], self.rope["original_max_position_embeddings"]

        def c(r: float) -> Any:
            return self.d * np.log(length / (2 * np.pi * r)) / (2 * np.log(self.rope["rope_theta"]))

        low, high = c(self.rope["beta_fast"]), c(self.rope["beta_slow"])
        if self.rope.get("truncate", True):
            low, high = np.floor(low), np.ceil(high)
        low, high = max(low, 0), min(high, self.d - 1)
        g = 1 - clipped((self.pair - low) / (high - low if high != low else 0.001))
        if self.rope.get("ramp") == "rotations":  # a deliberate mistake: the paper's ramp
            g = clipped((length * self.plain / (2 * np.pi) - 1) / 31)
        return self.plain / s * (1 - g) + self.plain * g

    def factor_of_yarn(self) -> float:
        if (stated := self.rope.get("attention_factor")) is not None:
            return float(stated)
        s, m, n = np.log(self.rope["factor"]), self.rope.get("mscale"), self.rope.get("mscale_all_dim")
        return float((0.1 * m * s + 1) / (0.1 * n * s + 1) if m and n else 0.1 * s + 1)

    def tables(self, positions: Any) -> tuple[Any, Any]:
        """Return cos and sin, ``(T, P)``, at positions ``(A, T)``."""
        at = np.asarray(positions)[self.axes].T.astype(np.float32)
        angles = at * self.theta
        return self.a * np.cos(angles), self.a * np.sin(angles)

    def rotate(self, layer_type: str, query: Any, positions: Any) -> Any:
        cos, sin = self.tables(positions)
        x = np.repeat(np.asarray(query)[None], len(cos), 0)
        first = slice(0, self.d // 2) if self.pairing == "half" else slice(0, self.d, 2)
        second = slice(self.d // 2, self.d) if self.pairing == "half" else slice(1, self.d, 2)
        turned = x.copy()
        turned[:, first] = x[:, first] * cos - x[:, second] * sin
        turned[:, second] = x[:, first] * sin + x[:, second] * cos
        return turned


class Engines:
    """The engines for all layer types in a file."""

    def __init__(self, header: Mapping[str, Any], **instead: Any) -> None:
        layers = {name: layer for name, layer in header["layers"].items() if "parameters" in layer}
        self.engines = {name: Engine(layer, **instead) for name, layer in layers.items()}

    def rotate(self, layer_type: str, query: Any, positions: Any) -> Any:
        return self.engines[layer_type].rotate(layer_type, query, positions)
