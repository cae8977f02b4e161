"""Computes the distances that remappings use from the papers, one by one, without importing posenc.

Rotation is simple too: a query is rotated by its distance to a key in float64, and the key is not rotated.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Used = Callable[[int, int], float]
"""A function that returns the distance for the positions of a query and of a key that is not after the query."""


def self_extend(group: int, window: int) -> Used:
    """arXiv 2401.01325, equations 3 and 4: beyond W, floored positions with queries shifted by W − ⌊W/G⌋."""

    def used(q: int, k: int) -> float:
        if q - k < window:
            return q - k
        return math.floor(q / group) - math.floor(k / group) + (window - math.floor(window / group))

    return used


def dca(chunk: int, local: int) -> Used:
    """arXiv 2402.17463, section 3: lists of positions for a pretraining length c = s + w, used chunk by chunk."""
    c = chunk + local
    intra = list(range(chunk))
    successive = [*range(chunk, chunk + local), *[c - 1] * (chunk - local)]

    def used(q: int, k: int) -> float:
        (q_chunk, i), (k_chunk, j) = divmod(q, chunk), divmod(k, chunk)
        positions = intra[i] if q_chunk == k_chunk else successive[i] if q_chunk == k_chunk + 1 else c - 1
        return positions - j

    return used


def rerope(window: int) -> Used:
    return lambda q, k: min(q - k, window)


def string(shift: int, window: int) -> Used:
    """arXiv 2410.18745, figure 5: distances from S on are shifted by −S, and W is added."""

    def used(q: int, k: int) -> float:
        distance = q - k
        return distance if distance < shift else distance - shift + window

    return used


USED = {"self-extend": self_extend, "dca": dca, "rerope": rerope, "string": string}


def matrix(used: Used, q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """Return the distances ``(T, S)`` that are used, with 0 for a key after the query."""
    rows = [[used(q, k) if k <= q else 0 for k in k_positions.tolist()] for q in q_positions.tolist()]
    return torch.tensor(rows, dtype=torch.float64)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    distances: Tensor,
    visible: Tensor,
    sinks: Tensor | None = None,
    base: float = 1e4,
) -> Tensor:
    """Compute attention with scores ⟨R(distance)q, k⟩/√D, half pairs and grouped keys, for ``(B, H, T, D)``."""
    H, D = q.shape[1], q.shape[-1]
    k, v = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
    angles = distances[..., None] * torch.tensor([base ** (-2 * i / D) for i in range(D // 2)], dtype=torch.float64)
    (a, b), (c, d) = (x.double().chunk(2, dim=-1) for x in (q, k))
    a, b, c, d = a[..., :, None, :], b[..., :, None, :], c[..., None, :, :], d[..., None, :, :]
    scores = ((a * c + b * d) * angles.cos() + (b * c - a * d) * -angles.sin()).sum(-1) / math.sqrt(D)
    scores = scores.masked_fill(~visible, -math.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.double()[:, None, None].expand(*scores.shape[:3], 1)), dim=-1)
    return scores.softmax(-1).nan_to_num()[..., : k.shape[-2]] @ v.double()
