"""Attention over sequences that are sharded over ranks, which pass keys and values around in a ring.

In each step, a rank attends to the keys that it currently has, and merges the result into its output, using the
logsumexps. In the backward pass, keys and values are passed around again together with their gradients. At the end,
each rank has the gradients of its own keys and values.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from posenc.attend.attend import attention
from posenc.attend.call import check, scale_of_scores
from posenc.encodings.bias import Bias
from posenc.encodings.placed import Placed
from posenc.encodings.wide import attended_dtype
from posenc.errors import InvalidArgument
from posenc.kernels.attention.softmax import Block, finite, merge
from posenc.kernels.memory import is_concrete
from posenc.mask import Mask


def ring_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K n D"],
    v: Float[Tensor, "B K n V"],
    placed: Placed,
    mask: Mask | None = None,
    *,
    group: dist.ProcessGroup | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> Float[Tensor, "B H T V"]:
    """Compute ``attention`` of this rank's queries over the keys of all ranks in ``group``.

        shards = [posenc.positions.sharded(length, r, ranks, zigzag=True) for r in range(ranks)]
        everyone = torch.cat(shards)
        placed = encoding.at(shards[rank], everyone)
        mask = posenc.Mask(causal=True, q_order=shards[rank], k_order=everyone)
        q, k = encoding.at(shards[rank]).rotate(q, k)
        y = posenc.ring_attention(q, k, v, placed, mask)

    Outputs and gradients are the same as with ``attention`` over gathered keys. A rank stores keys, values and
    gradients of only two ranks at a time. Only ``placed`` and ``mask`` (positions, orders, segments and padding)
    cover the whole sequence. On the CPU, if a rank's queries see none of the keys that it receives, the rank passes
    these keys on without computing attention.

    Args:
        q, k, v: this rank's tensors; all ranks have the same number of keys.
        placed: the encoding at the positions of this rank's queries and of all S keys, in rank order. An encoding
            with a state (FoX) needs the states of all keys: ``placed.with_state(gathered)``.
        mask: the mask for this rank's queries and all S keys. A mask that is causal or has a window or chunks
            needs ``q_order`` and ``k_order``.
        group: the process group; all ranks by default.
        scale, softcap, sinks: as in ``attention``. Gradients of sinks and of the encoding's parameters are
            partial: each rank computes its own share, so sum these gradients over the ranks.

    Raises:
        InvalidArgument: as in ``attention``; also if the ranks do not have S keys in total, if the mask needs
            ``q_order`` and ``k_order`` but lacks them, or if the bias reads the scores of all keys (CoPE).
    """
    if not dist.is_initialized():
        raise InvalidArgument(
            f"group={group} has no ranks yet; call torch.distributed.init_process_group(…) first, or use "
            "posenc.attention in a single process"
        )
    ranks, n = dist.get_world_size(group), k.shape[2]
    S, mask = ranks * n, Mask() if mask is None else mask
    _check_ring(placed, mask, ranks, n)
    every_k, every_v = (x[:, :, :1].expand(-1, -1, S, -1) for x in (k, v))  # tensors of this shape, without memory
    mask, bias = check(q, every_k, every_v, placed, mask), placed.bias
    if bias is not None:
        bias = bias.ordered(*mask.order(q.shape[2], S, q.device))
    layer = placed.changed(bias=bias, window=None, chunk=None)
    ring = _Ring(layer, mask, scale_of_scores(placed, q.shape[-1], scale), softcap, group)
    q, k, v = (x.to(attended_dtype(x)) for x in (q, k, v))
    y, lse = _Travelled.apply(ring, q, k, v, placed.scale, *(() if bias is None else bias.trained))
    return y if sinks is None else merge([(y, lse)], sinks)[0]


def _check_ring(placed: Placed, mask: Mask, ranks: int, n: int) -> None:
    """Raise an error if the encoding or the mask does not support ranks with n keys each."""
    if placed.k_positions.shape[-1] != ranks * n:
        raise InvalidArgument(
            f"the encoding was placed at {placed.k_positions.shape[-1]} key positions, but {ranks} ranks have "
            f"{n} keys each; place it at the keys of all ranks: encoding.at(shards[rank], torch.cat(shards))"
        )
    if placed.remaps:
        raise InvalidArgument(
            "an encoding with remapped positions needs the keys of all ranks at once; gather the keys and call "
            "posenc.attention"
        )
    narrowed = mask.window or mask.chunk or placed.window or placed.chunk
    if mask.q_order is None and (mask.causal or narrowed or mask.has_own_rule):
        raise InvalidArgument(
            "the mask needs the order of the tokens of all ranks; pass Mask(…, q_order=shards[rank], "
            "k_order=torch.cat(shards))"
        )
    if placed.bias is not None and placed.bias.needs_scores:
        raise InvalidArgument(
            "the bias reads the scores of all keys, which no rank has; gather the keys and call posenc.attention"
        )


class _Ring:
    """The data that all steps of the ring share: the encoding and the mask for all keys, and the ranks."""

    def __init__(
        self, placed: Placed, mask: Mask, scale: float, softcap: float | None, group: dist.ProcessGroup | None
    ) -> None:
        self.placed, self.mask, self.scale, self.softcap = placed, mask, scale, softcap
        self.group, self.rank, self.ranks = group, dist.get_rank(group), dist.get_world_size(group)

    def attend(
        self, step: int, q: Tensor, k: Tensor, v: Tensor, row_scale: Tensor | None, bias: Bias | None
    ) -> Block:
        """Return the output and logsumexp of attention to the keys that this rank has after this number of
        steps.
        """
        keys = self.keys(step, k.shape[2])
        mask, at = self.mask.cut(keys=keys), self.placed.k_positions[..., keys]
        bias = None if bias is None else bias.cut(keys=keys)
        layer = self.placed.changed(k_positions=at, scale=row_scale, bias=bias)
        with torch.autocast(q.device.type, enabled=False):
            return attention(q, k, v, layer, mask, scale=self.scale, softcap=self.softcap, return_logsumexp=True)

    def keys(self, step: int, n: int) -> slice:
        """Return the slice of the sequence with the keys of this step.

        These keys belong to the rank that is ``step`` places before this one in the ring.
        """
        owner = (self.rank - step) % self.ranks
        return slice(owner * n, (owner + 1) * n)

    def hides(self, step: int, n: int) -> bool:
        """Return whether it is known that no query sees a key of this step."""
        q, k = self.mask.q_order, self.mask.k_order
        if not self.mask.causal or q is None or k is None or not (q.is_cpu and is_concrete(q, k)):
            return False
        return bool(k[..., self.keys(step, n)].amin() > q.amax())

    def travel(self, *tensors: Tensor) -> Iterator[tuple[int, list[Tensor]]]:
        """Yield the number of each step and this rank's current tensors, while sending the tensors to the next
        rank.
        """
        pieces = [x.contiguous() for x in tensors]
        for step in range(self.ranks):
            arriving, works = self.pass_on(pieces) if step + 1 < self.ranks else (pieces, [])
            yield step, pieces
            for work in works:
                work.wait()
            pieces = arriving

    def pass_on(self, tensors: list[Tensor]) -> tuple[list[Tensor], list[dist.Work]]:
        """Start sending tensors to the next rank and receiving tensors from the previous rank."""
        if self.ranks == 1:
            return tensors, []
        received = [torch.empty_like(x) for x in tensors]
        there, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        sends = [dist.P2POp(dist.isend, x, group=self.group, group_peer=there) for x in tensors]
        receives = [dist.P2POp(dist.irecv, x, group=self.group, group_peer=before) for x in received]
        return received, dist.batch_isend_irecv([*sends, *receives])


class _Travelled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ring: _Ring, q: Tensor, k: Tensor, v: Tensor, row_scale: Tensor | None, *trainable: Tensor
    ) -> Block:
        bias, total = ring.placed.bias, None
        for step, (some_k, some_v) in ring.travel(k, v):
            if not ring.hides(step, k.shape[2]):
                part = ring.attend(step, q, some_k, some_v, row_scale, bias)
                part = part[0].to(part[1].dtype), part[1]
                total = part if total is None else merge([total, part])
        if total is None:
            lse = q.new_full(q.shape[:3], -torch.inf, dtype=torch.promote_types(q.dtype, torch.float32))
            total = lse.new_zeros(*q.shape[:3], v.shape[-1]), lse
        y, lse = total[0].to(v.dtype), total[1]
        ctx.ring = ring
        ctx.save_for_backward(q, k, v, row_scale, y, lse, *trainable)
        return y, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, row_scale, y, lse, *trainable = ctx.saved_tensors
        ring: _Ring = ctx.ring
        compute_dtype = lse.dtype
        inner = (grad.to(compute_dtype) * y.to(compute_dtype)).sum(-1)
        travelling = [x.new_zeros(x.shape, dtype=compute_dtype) for x in (k, v)]
        local = [x for x in (q, row_scale, *trainable) if x is not None]
        sums = [torch.zeros_like(x, dtype=torch.promote_types(x.dtype, compute_dtype)) for x in local]
        for step, pieces in ring.travel(k, v):
            if not ring.hides(step, k.shape[2]):
                inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in (*local, *pieces)]
                some_q, *rest = inputs[: len(local)]
                some_scale = rest.pop(0) if row_scale is not None else None
                with torch.enable_grad():
                    bias = ring.placed.bias
                    bias = None if bias is None else bias.with_trained(tuple(rest))
                    out, part = ring.attend(step, some_q, inputs[-2], inputs[-1], some_scale, bias)
                # y = Σ w_i·y_i with w_i = exp(l_i − l), so dy = w_i·(y_i − y)·dl_i.
                weight = (part.detach() - finite(lse)).exp()
                of_part = weight * (
                    (grad.to(compute_dtype) * out.detach().to(compute_dtype)).sum(-1)
                    - inner
                    + grad_lse.to(compute_dtype)
                )
                grads = torch.autograd.grad(
                    (out, part), inputs, ((grad * weight[..., None]).to(out.dtype), of_part), allow_unused=True
                )
                for total, more in zip((*sums, *travelling), grads, strict=True):
                    total += 0 if more is None else more
            travelling, works = ring.pass_on(travelling)
            for work in works:
                work.wait()
        dk, dv = (home.to(x.dtype) for home, x in zip(travelling, (k, v), strict=True))
        dq, *others = (total.to(x.dtype) for total, x in zip(sums, local, strict=True))
        of_scale = others.pop(0) if row_scale is not None else None
        return None, dq, dk, dv, of_scale, *others
