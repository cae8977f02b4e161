"""Rotation of q and k by whichever implementation serves: the way from a choice to an engine."""

import torch
from torch import Tensor

from posenc.kernels.choose import choose
from posenc.kernels.rotary_compiled import compiled, formula
from posenc.kernels.rotary_cpu import FEW, eager
from posenc.kernels.rotation import Engine, turn, turn_into

Tables = tuple[Tensor, Tensor]
ENGINES: dict[str, Engine | None] = {"torch": None, "eager": eager, "compiled": compiled}


def engine_for(impl: str, device: str) -> Engine | None:
    """The engine that serves this type of device; None: the specification.

    Inside ``torch.compile`` and ``torch.export`` it is the fusable formula, whatever was asked for except the
    specification: there the compiler computes.
    """
    if impl == "torch":
        return None
    if torch.compiler.is_compiling():
        return formula
    served = choose(impl, device).impl
    if served == "triton":
        from posenc.kernels.rotary_triton import from_tables

        return from_tables
    return ENGINES[served]


def rotate_pair(
    engine: Engine,
    q: Tensor,
    k: Tensor,
    q_phases: Tables,
    k_phases: Tables,
    pairing: str,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """q and k turned by their phases; together where they share them."""
    if out is not None:
        return (
            turn_into(engine, q, out[0], *q_phases, pairing),
            turn_into(engine, k, out[1], *k_phases, pairing),
        )
    q, k = _over_rows(q, q_phases[0]), _over_rows(k, k_phases[0])
    if q_phases is k_phases:
        q_turned, k_turned = turn(engine, q, k, *q_phases, pairing)
        return q_turned, k_turned
    return turn(engine, q, None, *q_phases, pairing)[0], turn(engine, k, None, *k_phases, pairing)[0]


def _over_rows(x: Tensor, phases: Tensor) -> Tensor:
    """One row of vectors at several rows of positions becomes as many rows."""
    many = phases.dim() == 4 and phases.shape[0] > 1 and x.shape[0] == 1
    return x.expand(phases.shape[0], *x.shape[1:]) if many else x


def are_few(q: Tensor, k: Tensor) -> bool:
    """Whether one decoding step's q and k are so small that operator calls are what they cost."""
    return (
        q.numel() + k.numel() <= FEW
        and not torch.is_grad_enabled()
        and q.dim() == 4
        and q.dtype == k.dtype
        and q.shape[0] == k.shape[0]
    )
