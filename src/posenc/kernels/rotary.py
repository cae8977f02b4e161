"""Rotation of q and k by whichever implementation serves: the way from a choice to an engine."""

import torch
from torch import Tensor

from posenc.kernels.choose import choose
from posenc.kernels.rotary_compiled import compiled, formula
from posenc.kernels.rotary_cpu import FEW, eager
from posenc.kernels.rotation import Engine, turn, turn_into

Tables = tuple[Tensor, Tensor]


def serving(impl: str, device: str) -> str:
    """Which engine serves this type of device, by name; ``"torch"`` is the specification.

    Inside ``torch.compile`` and ``torch.export`` it is the fusable formula, whatever was asked for except the
    specification: there the compiler computes.
    """
    if impl == "torch":
        return impl
    return "formula" if torch.compiler.is_compiling() else choose(impl, device).impl


def engine_from_tables(served: str) -> Engine:
    """The engine of that name that reads cos and sin."""
    if served == "triton":
        from posenc.kernels.rotary_triton import from_tables

        return from_tables
    return {"eager": eager, "compiled": compiled, "formula": formula}[served]


def engine_from_turns(factor: float) -> Engine:
    """The Triton engine that computes phases itself, from positions and turns."""
    from posenc.kernels.rotary_triton import from_turns

    return from_turns(factor)


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
    if q_phases[0] is k_phases[0]:
        q_turned, k_turned = turn(engine, q, k, *q_phases, pairing)
        return q_turned, k_turned
    return turn(engine, q, None, *q_phases, pairing)[0], turn(engine, k, None, *k_phases, pairing)[0]


def are_few(q: Tensor, k: Tensor) -> bool:
    """Whether one decoding step's q and k are so small that operator calls are what they cost."""
    return (
        q.numel() + k.numel() <= FEW
        and not torch.is_grad_enabled()
        and q.dim() == 4
        and q.dtype == k.dtype
        and q.shape[0] == k.shape[0]
    )
