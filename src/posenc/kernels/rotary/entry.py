"""``rotate_both``, the one entry to rotation: which backend computes, for q and k together or apart, and into which
memory."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.kernels.backend import select
from posenc.kernels.memory import is_recorded, may_be_looked_at, overlap
from posenc.kernels.rotary.by_native import Step, by_native
from posenc.kernels.rotary.by_native import step as native_step
from posenc.kernels.rotary.eager import blockwise
from posenc.kernels.rotary.fusable import fusable
from posenc.kernels.rotary.operation import Engine, apply, apply_in_place
from posenc.kernels.rotary.specification import Pairing, rotate

TRACEABLE = ("native",)
"""Who is one operator to a compiler, and is taken there where asked for by name."""


class Tables(NamedTuple):
    """cos and sin of every pair at every token: ``(T, pairs)``, or with axes of batch and heads before them."""

    cos: Tensor
    sin: Tensor


def rotate_both(
    q: Tensor,
    k: Tensor,
    q_tables: Tables,
    k_tables: Tables,
    pairing: Pairing,
    backend: str = "auto",
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Queries ``(B, H, T, D)`` and keys ``(B, K, S, D)`` rotated by their tables; channels behind the pairs pass.

    Args:
        q_tables, k_tables: what ``tables`` made; the same where q and k share it.
        backend: who computes (see ``posenc.kernels.backend``). Which way is taken never depends on whether
            gradients are recorded, so that the numbers do not either.
        out: memory for the results, of the same shapes and types: q and k themselves, a slot of a cache, or
            anything else that is not shared between the two.

    Raises:
        InvalidArgument: an out that does not fit, or tables with gradients under an engine that returns none.
    """
    if out is not None:
        return _rotate_into(q, k, q_tables, k_tables, pairing, backend, out)
    served = _serving(backend, q.device.type, q_tables, k_tables)
    if served == "torch":
        return rotate(q, q_tables.cos, q_tables.sin, pairing), rotate(k, k_tables.cos, k_tables.sin, pairing)
    groups = (
        [((q, k), q_tables)] if _go_together(q, k, q_tables, k_tables) else [((q,), q_tables), ((k,), k_tables)]
    )
    engine = _engine(served)
    q_rotated, k_rotated = (y for xs, at in groups for y in apply(engine, xs, at.cos, at.sin, pairing))
    return q_rotated, k_rotated


def step(q: Tensor, k: Tensor, q_tables: Tables, k_tables: Tables, pairing: Pairing, backend: str) -> Step | None:
    """The same call once more, for other q and k of these shapes, with all decided; None where it saves nothing."""
    if (
        not may_be_looked_at(q, k)
        or is_recorded(q, k)
        or _serving(backend, q.device.type, q_tables, k_tables) != "native"
    ):
        return None
    return native_step(q, k, q_tables, k_tables, pairing)


def _rotate_into(
    q: Tensor,
    k: Tensor,
    q_tables: Tables,
    k_tables: Tables,
    pairing: Pairing,
    backend: str,
    out: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    _check_out(q, k, out)
    served = _serving(backend, q.device.type, q_tables, k_tables)
    if served in ("torch", "fusable") or not _leaves_the_rest(q, k, out):
        rotated = rotate_both(q, k, q_tables, k_tables, pairing, backend)
        return out[0].copy_(rotated[0]), out[1].copy_(rotated[1])
    engine = _engine(served)
    if not is_recorded(q, k, *out):
        for x, at, table in ((q, out[0], q_tables), (k, out[1], k_tables)):
            engine((x,), table.cos, table.sin, pairing, (at,))
            torch.autograd.graph.increment_version(at)
        return out
    return (
        apply_in_place(engine, q, out[0], q_tables.cos, q_tables.sin, pairing),
        apply_in_place(engine, k, out[1], k_tables.cos, k_tables.sin, pairing),
    )


def _go_together(q: Tensor, k: Tensor, q_tables: Tables, k_tables: Tables) -> bool:
    """Whether one call may rotate both. A result must not ask for gradients that its own input never asked for.

    cos says whether tables are shared, as torch 2.8 cannot compare named tuples under ``torch.compile``.
    """
    shared = q_tables.cos is k_tables.cos and (q_tables.cos.dim() < 4 or q_tables.cos.shape[1] == 1)
    return shared and q is not k and q.requires_grad == k.requires_grad and q.shape[0] == k.shape[0]


def _serving(backend: str, device: str, q_tables: Tables, k_tables: Tables) -> str:
    """Who computes, by name; ``"torch"`` is the specification.

    Inside ``torch.compile`` and ``torch.export`` ``"auto"`` is the fusable formula: there the compiler computes.
    Tables with gradients are for the specification.
    """
    if backend == "torch":
        return backend
    if any(table.requires_grad for table in (q_tables.cos, q_tables.sin, k_tables.cos, k_tables.sin)):
        if backend == "auto":
            return "torch"
        raise InvalidArgument(
            f"the tables carry gradients, which backend={backend!r} does not return; use backend='torch'"
        )
    if torch.compiler.is_compiling():
        return backend if backend in TRACEABLE else "fusable"
    if torch.jit.is_tracing():  # which sees operators of torch alone, and would keep the numbers of this call
        return "torch"
    return select(backend, device).backend


def _engine(served: str) -> Engine:
    if served == "triton":
        from posenc.kernels.rotary.by_triton import by_triton

        return by_triton
    return {"eager": blockwise, "native": by_native, "fusable": fusable}[served]


def _check_out(q: Tensor, k: Tensor, out: tuple[Tensor, Tensor]) -> None:
    for x, at in zip((q, k), out, strict=True):
        if at.shape != x.shape or at.dtype != x.dtype or at.device != x.device:
            raise InvalidArgument(
                f"out is {at.dtype} {tuple(at.shape)} on {at.device} for {x.dtype} {tuple(x.shape)} on "
                f"{x.device}; give memory of the same kind, or the tensor itself to rotate in place"
            )
        if any(n > 1 and not s for n, s in zip(at.shape, at.stride(), strict=True)):
            raise InvalidArgument(
                f"out has shape {tuple(at.shape)} and strides {at.stride()}, so that several of its numbers are in "
                "one place; give each a place of its own: x.clone()"
            )
    if out[0] is out[1] or (may_be_looked_at(*out) and overlap(*out)):
        raise InvalidArgument("out has two tensors that share memory; give the queries and the keys their own")


def _leaves_the_rest(q: Tensor, k: Tensor, out: tuple[Tensor, Tensor]) -> bool:
    """Whether each result can be written at once: over its own x, or over nothing that is still to be read."""
    if not may_be_looked_at(q, k, *out):
        return False
    apart = all(at is x or not overlap(at, x) for x, at in ((q, out[0]), (k, out[1])))
    return apart and not overlap(out[0], k) and not overlap(out[1], q)
