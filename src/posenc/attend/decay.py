"""Products of queries and keys whose channels fade with distance, anchored so that no factor leaves its type.

    q·k  becomes  Σ_c q_c·k_c·e^{d_c·(p_q − p_k)},   d_c ≤ 0

Splitting the factor between q and k by absolute positions would overflow, and a key scaled so would be stale as
soon as somebody moved the anchor. Keys stay as they were rotated; here, for rows whose positions lie close
together, q is scaled from the nearest of them, a, and k towards it: e^{d·(p_q − a)} ≤ 1, and e^{d·(a − p_k)} ≤ 1
for every key behind them all.
"""

import copy
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.placed import LARGEST, SPAN, Placed
from posenc.kernels.attention.softmax import for_every_head
from posenc.kernels.memory import may_be_looked_at, unwrapped
from posenc.mask import Mask

TOO_FAR = (
    f"queries lie more than {SPAN} positions apart, or so far that a channel fades by more than e^-{LARGEST:g} "
    "between them; pass fewer at a time"
)
"""Said where nobody may look; written beforehand, as a compiler takes numbers in a message for inputs."""

Attend = Callable[[Tensor, Tensor, Tensor, Placed, Mask], tuple[Tensor, Tensor | None]]


def decayed(
    attend: Attend, scale: float, q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask
) -> tuple[Tensor, Tensor | None]:
    """Output and logsumexp of ``attend`` for channels that fade, some rows at a time where positions lie apart."""
    outputs = [attend(*run) for run in runs(q, k, v, placed, mask, scale)]
    out = torch.cat([part for part, _ in outputs], dim=2) if len(outputs) > 1 else outputs[0][0]
    sums = [lse for _, lse in outputs if lse is not None]
    return out.to(q.dtype), torch.cat(sums, dim=2) if len(sums) > 1 else next(iter(sums), None)


def runs(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float
) -> Iterator[tuple[Tensor, Tensor, Tensor, Placed, Mask]]:
    """The arguments of attention for rows that share an anchor, with q and k scaled, one run after the other."""
    decay = placed.decay
    assert decay is not None
    T, S = q.shape[2], k.shape[2]
    positions = along(placed)
    if q.dtype == torch.float16:  # ends at 65 504
        q, k, v = q.float(), k.float(), v.float()
    # Orders of their own come with shards of two pieces, which lie apart.
    most = placed.decay_span if mask.q_order is None else min(placed.decay_span, max(1, T - 1))
    parts, bias = list(_close(positions[0], decay, most, 0, T)), placed.bias
    if bias is not None and not bias.met:  # meets queries as they entered, and none of those that follow
        placed = copy.copy(placed)
        placed.bias = bias = bias.ordered(*mask.order(T, S, q.device)).met_with(q, k, scale)
    for first, last in parts:
        layer, visible = placed, mask
        if len(parts) > 1:
            row_scale = None if placed.scale is None else placed.scale[:, :, first:last]
            row_bias = None if bias is None else bias.cut(queries=slice(first, last))
            at = placed.q_positions[..., first:last]
            layer = Placed(at, placed.k_positions, placed.axes, bias=row_bias, scale=row_scale)
            visible = mask.rows(first, last, T, S, q.device)
        near_q, near_k = _anchored(q[:, :, first:last], k, decay, positions[0][..., first:last], positions[1])
        layer = copy.copy(layer)
        layer.decay = None
        yield near_q, near_k, v, layer, visible


def fading_products(q: Tensor, k: Tensor, placed: Placed) -> Float[Tensor, "B H T S"]:
    """The products as their formula says, channel by channel, dense, in float32 or wider."""
    assert placed.decay is not None
    wide = torch.promote_types(q.dtype, torch.float32)
    q_positions, k_positions = along(placed)
    ahead = (q_positions[..., :, None] - k_positions[..., None, :]).to(wide)
    ahead = ahead if ahead.dim() == 2 else ahead[:, None]
    k = for_every_head(k, q.shape[1])
    decay = placed.decay.to(wide)
    total = torch.zeros((), dtype=wide, device=q.device)
    for c in range(q.shape[-1]):
        factor = (decay[..., c, None] * ahead).clamp(max=LARGEST).exp()
        total = total + q[..., :, None, c].to(wide) * k[..., None, :, c].to(wide) * factor
    return total


def along(placed: Placed) -> tuple[Tensor, Tensor]:
    """The positions of queries and keys that channels fade by, ``(T,)`` or ``(B, T)``: of more axes the first."""
    if placed.axes == 1:
        return placed.q_positions, placed.k_positions
    return placed.q_positions[0], placed.k_positions[0]


def _anchored(q: Tensor, k: Tensor, decay: Tensor, q_at: Tensor, k_at: Tensor) -> tuple[Tensor, Tensor]:
    """q scaled from the nearest of its positions, k towards it."""
    wide = torch.promote_types(q.dtype, torch.float32)
    anchor = q_at.amin(-1, keepdim=True) if q.shape[2] else q_at.new_zeros(1)
    k_decay = decay if decay.shape[0] == 1 else decay[:: q.shape[1] // k.shape[1]]
    return (
        (q * _factors(q_at - anchor, decay.to(wide))).to(q.dtype),
        (k * _factors(anchor - k_at, k_decay.to(wide))).to(k.dtype),
    )


def _factors(steps: Tensor, decay: Tensor) -> Float[Tensor, "*heads T D"]:
    steps = steps if steps.dim() == 1 else steps[:, None]
    return (steps[..., None].to(decay.dtype) * decay).clamp(max=LARGEST).exp()


def _close(positions: Tensor, decay: Tensor, most: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Runs of rows that can share an anchor. Where looking would wait for a device they are halved down to ``most``
    rows, as if positions counted up, and a compiler takes all; a span too long is an error there.
    """
    rows = unwrapped(positions[..., first:last])
    looks = may_be_looked_at(rows)
    halved = looks and not rows.is_cpu and last - first > most
    if last - first < 2 or (not looks and rows.is_meta):
        yield first, last
        return
    if not halved:
        span = (rows.amax(-1) - rows.amin(-1)).max()
        fits = (span <= SPAN) & (-decay.amin() * span <= LARGEST)
        if not (looks and rows.is_cpu):
            torch._assert_async(fits, TOO_FAR)
        if not (looks and rows.is_cpu) or bool(fits):
            yield first, last
            return
    middle = (first + last) // 2
    yield from _close(positions, decay, most, first, middle)
    yield from _close(positions, decay, most, middle, last)
