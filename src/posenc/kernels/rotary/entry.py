"""``rotate_both``, the entry point of rotation. It selects the backend, decides whether q and k are rotated in one
call or two, and handles ``out``.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.kernels.backend import by_name
from posenc.kernels.memory import is_concrete, is_recorded, is_transformed, overlap
from posenc.kernels.rotary.by_native import by_native
from posenc.kernels.rotary.eager import blockwise
from posenc.kernels.rotary.fusable import fusable
from posenc.kernels.rotary.operation import Engine, apply, apply_in_place
from posenc.kernels.rotary.specification import Pairing, rotate


class Tables(NamedTuple):
    """cos and sin of every pair at every token: ``(T, pairs)`` or ``(#B, #H, T, pairs)``."""

    cos: Tensor
    sin: Tensor


ENGINES: dict[str, Engine] = {"eager": blockwise, "native": by_native, "fusable": fusable}

Rotated = tuple[Tensor | None, Tensor | None]
"""Rotated queries and keys; None in place of queries or keys that were not passed."""


def rotate_both(
    q: Tensor | None,
    k: Tensor | None,
    q_tables: Tables,
    k_tables: Tables,
    pairing: Pairing,
    backend: str = "auto",
    out: Rotated | None = None,
) -> Rotated:
    """Rotate queries ``(B, H, T, D)`` and keys ``(B, K, S, D)`` by their tables of cos and sin. Channels beyond the
    pairs of the tables are unchanged.

    Args:
        q, k: queries and keys; if one of them is None, so is its result.
        q_tables, k_tables: cos and sin; the same object if q and k share tables.
        backend: see ``posenc.kernels.backend``. Neither the choice of the backend nor the results depend on
            whether gradients are enabled.
        out: two tensors for the results, with the shapes and dtypes of q and k. They may be q and k themselves,
            slices of a cache, or other tensors that do not overlap each other. By default, new tensors are
            allocated.

    Raises:
        InvalidArgument: ``out`` does not fit q and k, or tables require gradients that the backend does not
            compute.
    """
    x = k if q is None else q
    if x is None:
        raise InvalidArgument("q and k are both None; pass q or k")
    served = _serving(backend, x.device.type, q_tables, k_tables)
    if out is not None:
        triples = zip((q, k), (q_tables, k_tables), out, strict=True)
        results = _rotate_into([(x, at, place) for x, at, place in triples if x is not None], pairing, served)
        return None if q is None else results[0], None if k is None else results[-1]
    if served != "torch" and q is not None and k is not None and _go_together(q, k, q_tables, k_tables):
        return cast(Rotated, apply(ENGINES[served], (q, k), *q_tables, pairing))
    return (
        None if q is None else _rotated(q, q_tables, pairing, served),
        None if k is None else _rotated(k, k_tables, pairing, served),
    )


def _rotated(x: Tensor, tables: Tables, pairing: Pairing, served: str) -> Tensor:
    return rotate(x, *tables, pairing) if served == "torch" else apply(ENGINES[served], (x,), *tables, pairing)[0]


def _rotate_into(
    calls: Sequence[tuple[Tensor, Tables, Tensor | None]], pairing: Pairing, served: str
) -> list[Tensor]:
    """Rotate each tensor by its tables into its ``out``, or into a new tensor if ``out`` is None."""
    xs = [x for x, _, _ in calls]
    places = [torch.empty_like(x) if place is None else place for x, _, place in calls]
    _check_out(xs, places)
    if served in ("torch", "fusable") or not _leaves_the_rest(xs, places):
        rotated = [_rotated(x, at, pairing, served) for x, at, _ in calls]
        return [place.copy_(y) for place, y in zip(places, rotated, strict=True)]
    write = apply_in_place if is_recorded(*xs, *places) else _write
    pairs = zip(calls, places, strict=True)
    return [write(ENGINES[served], x, place, *at, pairing) for (x, at, _), place in pairs]


def _write(engine: Engine, x: Tensor, out: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    engine(x, cos, sin, pairing, out)
    torch.autograd.graph.increment_version(out)
    return out


def _go_together(q: Tensor, k: Tensor, q_tables: Tables, k_tables: Tables) -> bool:
    """Return whether one call may rotate both q and k. Either both or neither must require gradients, because
    a result must not require gradients unless its own input does.

    Whether q and k share tables is decided by their cos tables alone, because torch 2.8 cannot compare the named
    tuples under ``torch.compile``.
    """
    shared = q_tables.cos is k_tables.cos and (q_tables.cos.dim() < 4 or q_tables.cos.shape[1] == 1)
    return shared and q is not k and q.requires_grad == k.requires_grad and q.shape[0] == k.shape[0]


def _serving(backend: str, device: str, q_tables: Tables, k_tables: Tables) -> str:
    """Return the name of the implementation to use.

    Under ``torch.compile`` and ``torch.export``, ``fusable`` is used, because compilers fuse its operators. Tables
    that require gradients need ``"torch"``.
    """
    if backend == "torch":
        return backend
    if any([table.requires_grad for table in (*q_tables, *k_tables)]):  # noqa: C419  a generator is slower
        if backend == "auto":
            return "torch"
        raise InvalidArgument(
            f"the tables require gradients, which backend={backend!r} does not compute; use backend='torch'"
        )
    if torch.compiler.is_compiling():
        return "fusable"
    served = by_name(backend, device)
    # A trace records only torch's operators; other results would become constants.
    return "torch" if is_transformed() or torch.jit.is_tracing() else served


def _check_out(xs: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    for x, at in zip(xs, out, strict=True):
        if at.shape != x.shape or at.dtype != x.dtype or at.device != x.device:
            raise InvalidArgument(
                f"out is {at.dtype} {tuple(at.shape)} on {at.device} but its input is {x.dtype} {tuple(x.shape)} "
                f"on {x.device}; pass a tensor like the input, or the input itself to rotate in place"
            )
        if any(n > 1 and not s for n, s in zip(at.shape, at.stride(), strict=True)) and at.numel():
            raise InvalidArgument(
                f"out has shape {tuple(at.shape)} and strides {at.stride()}, so several of its elements "
                "share memory; pass a tensor without overlap, such as its clone()"
            )
    if len(out) == 2 and (out[0] is out[1] or (is_concrete(*out) and overlap(*out))):
        raise InvalidArgument(
            "out contains two tensors that share memory; pass separate tensors for queries and keys"
        )


def _leaves_the_rest(xs: Sequence[Tensor], out: Sequence[Tensor]) -> bool:
    """Return whether each result can be written to its ``out`` without a temporary tensor. This requires
    that ``out`` shares no memory with any input, except that it may be the result's own input.
    """
    return is_concrete(*xs, *out) and all(
        (i == j and at is x) or not overlap(at, x) for i, at in enumerate(out) for j, x in enumerate(xs)
    )
