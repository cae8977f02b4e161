"""The formulas of the papers in float64, dense and slow; this module imports nothing from posenc.

Angles have errors of about 1e-16 × position radians, so this module is used only at small positions; at large
positions, results are compared with mpmath.
"""

import math

import torch
from torch import Tensor


class Reference:
    """An encoding without effects, such as NoPE, whose subclasses override their effects."""

    def rows(self, positions: Tensor) -> Tensor | float:
        """Return the rows that are added to the token embeddings at these positions."""
        return 0.0

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys ``(B, H, T, D)`` at positions ``(T,)``."""
        return x

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor | float:
        """Return the bias ``(H, T, S)`` that is added to the scores."""
        return 0.0


def frequencies(channels: int, base: float) -> Tensor:
    """Return the frequencies base^(−2i/d), one per pair."""
    return torch.tensor([base ** (-2 * i / channels) for i in range((channels + 1) // 2)], dtype=torch.float64)


class Rotation(Reference):
    """Rotates every pair of channels: (x, y) → (x cos φ − y sin φ, x sin φ + y cos φ)."""

    def __init__(self, rotary_dim: int, pairing: str, base: float = 1e4) -> None:
        self.rotary_dim, self.pairing, self.base = rotary_dim, pairing, base

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        out = x.clone()
        for i, frequency in enumerate(frequencies(self.rotary_dim, self.base)):
            a, b = (2 * i, 2 * i + 1) if self.pairing == "interleaved" else (i, i + self.rotary_dim // 2)
            angle = positions.double() * frequency
            out[..., a] = x[..., a] * angle.cos() - x[..., b] * angle.sin()
            out[..., b] = x[..., a] * angle.sin() + x[..., b] * angle.cos()
        return out


class Sinusoids(Reference):
    """Adds sin and cos of every frequency, column by column."""

    def __init__(self, width: int, order: str = "interleaved", spacing: str = "paper", base: float = 1e4) -> None:
        self.width, self.order, self.spacing, self.base = width, order, spacing, base

    def rows(self, positions: Tensor) -> Tensor:
        pairs = (self.width + 1) // 2
        if self.spacing == "paper":
            ladder = frequencies(self.width, self.base)
        else:
            ladder = torch.exp(-math.log(self.base) * torch.arange(pairs, dtype=torch.float64) / (pairs - 1))
        columns = torch.empty(len(positions), self.width, dtype=torch.float64)
        for i in range(pairs):
            sine, cosine = (2 * i, 2 * i + 1) if self.order == "interleaved" else (i, i + pairs)
            columns[:, sine] = (positions.double() * ladder[i]).sin()
            if cosine < self.width:
                columns[:, cosine] = (positions.double() * ladder[i]).cos()
        return columns


class Slopes(Reference):
    """Adds the bias −m_h·|p_k − p_q|."""

    def __init__(self, slopes: list[float]) -> None:
        self.slopes = torch.tensor(slopes, dtype=torch.float64)

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        distance = (k_positions[None, :] - q_positions[:, None]).abs().double()
        return -self.slopes[:, None, None] * distance


def slopes(heads: int, max_exponent: float = 8.0) -> list[float]:
    """Return ALiBi's slopes by the paper's recursion, which adds every second slope of the next power of two."""
    if math.log2(heads).is_integer():
        return [2 ** (-max_exponent * (h + 1) / heads) for h in range(heads)]
    power = 2 ** math.floor(math.log2(heads))
    return slopes(power, max_exponent) + slopes(2 * power, max_exponent)[0::2][: heads - power]


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | float, visible: Tensor, scale: float | None = None
) -> Tensor:
    """Compute softmax(q·kᵀ·scale + bias) v over visible keys in float64; rows without visible keys give zeros."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.where(visible, q @ k.mT * scale + bias, -math.inf)
    top = scores.amax(-1, keepdim=True).clamp(min=-1e300)
    weights = (scores - top).exp()
    return weights @ v / weights.sum(-1, keepdim=True).clamp(min=1e-300)


def visible(T: int, S: int, *, causal: bool) -> Tensor:
    """Return a mask ``(T, S)`` for queries and keys that end at the same token."""
    everything = torch.ones(T, S, dtype=torch.bool)
    return everything.tril(S - T) if causal else everything
