"""Which distance every remapping uses, from the papers, number by number; imports nothing of posenc.

The rotation is plain as well: a query rotated by its distance from a key, in float64, meets the key as it is.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Used = Callable[[int, int], float]
"""The distance that stands for that of a query at one position and a key at another, not after it."""


def self_extend(group: int, window: int) -> Used:
    """2401.01325, equations 3 and 4: floor positions, the query's shifted by W − ⌊W/G⌋; neighbours replace them."""

    def used(q: int, k: int) -> float:
        if q - k < window:
            return q - k
        return math.floor(q / group) - math.floor(k / group) + (window - math.floor(window / group))

    return used


def dca(chunk: int, local: int) -> Used:
    """2402.17463, section 3: lists of positions for a pretraining length c = s + w, met chunk by chunk."""
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
    """2410.18745, figure 5: positions from the diagonal S on are dropped, shifted by S, and W is added."""

    def used(q: int, k: int) -> float:
        distance = q - k
        return distance if distance < shift else distance - shift + window

    return used


USED = {"self-extend": self_extend, "dca": dca, "rerope": rerope, "string": string}


def matrix(used: Used, q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """The distances used ``(T, S)``; 0 where the key stands behind its query."""
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
    """softmax over what is visible of ⟨R(distance)q, k⟩/√D, half pairs; (B, H, T, D) with keys shared by groups."""
    H, D = q.shape[1], q.shape[-1]
    k, v = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
    angles = distances[..., None] * torch.tensor([base ** (-2 * i / D) for i in range(D // 2)], dtype=torch.float64)
    (a, b), (c, d) = (x.double().chunk(2, dim=-1) for x in (q, k))
    a, b, c, d = a[..., :, None, :], b[..., :, None, :], c[..., None, :, :], d[..., None, :, :]
    scores = ((a * c + b * d) * angles.cos() + (b * c - a * d) * -angles.sin()).sum(-1) / math.sqrt(D)
    scores = scores.masked_fill(~visible, -math.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.double()[:, None, None].expand(*scores.shape[:3], 1)), dim=-1)
    weights = scores.softmax(-1).nan_to_num()
    return weights[..., : k.shape[-2]] @ v.double()
