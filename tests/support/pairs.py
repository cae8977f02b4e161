"""An oracle for masks: a second implementation with older code for blocks and for FlexAttention, from before both
shared a predicate."""

from functools import reduce

import torch
from torch import Tensor

from posenc import Mask
from posenc.attend.remapped import RemappedMask


def visible(mask: Mask, T: int, S: int) -> Tensor | None:
    """Return a dense mask of the keys that each query sees; None if each query sees all keys."""
    if mask.chunk is not None:
        return visible(mask.without_chunks(T, S, torch.device("cpu")), T, S)
    parts: list[Tensor] = []
    if mask.causal or mask.window is not None:
        q, k = mask.places(T, S, torch.device("cpu"))
        ahead = k[..., None, :] - q[..., :, None]
        parts += [ahead <= 0] if mask.causal else []
        parts += [ahead > -mask.window] if mask.window is not None else []
        parts += [ahead < mask.window] if mask.window is not None and not mask.causal else []
    if parts and mask.bidirectional_groups is not None:
        groups = mask.bidirectional_groups
        q_groups = groups[..., S - T :][..., :, None]
        parts = [_all(parts) | _all([q_groups == groups[..., None, :], q_groups >= 0])]
    if mask.q_segments is not None and mask.k_segments is not None:
        parts.append(mask.q_segments[..., :, None] == mask.k_segments[..., None, :])
    if isinstance(mask, RemappedMask) and mask.k_positions is not None:
        at = mask.k_positions[..., None, :]
        parts += [] if mask.q_from is None else [at >= mask.q_from[..., :, None]]
        parts += [] if mask.q_until is None else [at < mask.q_until[..., :, None]]
    if mask.key_mask is not None:
        parts.append(mask.key_mask[:, None, None])
    if mask.dense is not None:
        parts.append(mask.dense)
    return _all(parts) if parts else None


def sees(mask: Mask, T: int, S: int, b: int, h: int, i: int, j: int) -> bool:
    """Return whether query i of head h in sequence b sees key j, computed for this pair alone."""
    mask = mask.without_chunks(T, S, torch.device("cpu"))
    q, k = mask.places(T, S, torch.device("cpu"))

    def of(row: Tensor, token: int) -> int:
        return int(row[token] if row.dim() == 1 else row[0 if row.shape[0] == 1 else b, token])

    ahead = of(k, j) - of(q, i)
    seen = not mask.causal or ahead <= 0
    if mask.window is not None:
        seen = seen and ahead > -mask.window and (mask.causal or ahead < mask.window)
    if mask.bidirectional_groups is not None:
        group = of(mask.bidirectional_groups, i + S - T)
        seen = seen or (group == of(mask.bidirectional_groups, j) and group >= 0)
    if mask.q_segments is not None and mask.k_segments is not None:
        seen = seen and of(mask.q_segments, i) == of(mask.k_segments, j)
    if isinstance(mask, RemappedMask) and mask.k_positions is not None:
        at = of(mask.k_positions, j)
        seen = seen and (mask.q_from is None or at >= of(mask.q_from, i))
        seen = seen and (mask.q_until is None or at < of(mask.q_until, i))
    if mask.dense is not None:
        d = mask.dense
        seen = seen and bool(d[b if d.shape[0] > 1 else 0, h if d.shape[1] > 1 else 0, i, j])
    return bool(seen) and (mask.key_mask is None or bool(of(mask.key_mask, j)))


def _all(parts: list[Tensor]) -> Tensor:
    parts = [part[None, None] if part.dim() == 2 else part[:, None] if part.dim() == 3 else part for part in parts]
    return reduce(torch.logical_and, parts)
