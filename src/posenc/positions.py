"""Makes position tensors: plain, with an offset, left-padded (from a mask), packed (from lengths).

A position is an int64 from 0 to 2^31−1. It is never made from an activation's dtype and never a bare length:
caches, padding, packing and sharded sequences are a matter of which positions are passed, and of nothing else.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import InvalidArgument, PositionOutOfRange

LIMIT = 2**31
"""Positions are below this: phases are exact there, and every kernel can address them."""

Device = torch.device | str | None


def plain(length: int, *, offset: int = 0, device: Device = None) -> Int[Tensor, " T"]:
    """``offset, offset+1, …``: one sequence, or the next ``length`` tokens after ``offset`` cached ones."""
    if length < 0:
        raise InvalidArgument(f"length={length} must not be negative")
    if offset < 0 or offset + length > LIMIT:
        raise PositionOutOfRange(
            f"offset={offset} with length={length} leaves the positions 0 … {LIMIT - 1}; lower one of them"
        )
    return torch.arange(offset, offset + length, dtype=torch.int64, device=device)


def left_padded(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Positions that count real tokens only: the first real token of every row is at 0.

    ``mask`` is true at real tokens. Padding gets position 0; hide it with ``key_mask=mask`` in attention.
    """
    if mask.dtype != torch.bool or mask.dim() != 2:
        raise InvalidArgument(
            f"mask is {mask.dtype} with shape {tuple(mask.shape)}; expected bool (B, T): pass mask.bool()"
        )
    return (mask.to(torch.int64).cumsum(-1) - 1).clamp(min=0)


def packed(lengths: Sequence[int], *, device: Device = None) -> tuple[Int[Tensor, " T"], Int[Tensor, " T"]]:
    """Positions and segments of documents laid end to end: ``[2, 3]`` → ``[0 1 0 1 2]``, ``[0 0 1 1 1]``.

    Pass the segments to attention so that no document sees another.
    """
    if any(n < 1 for n in lengths):
        raise InvalidArgument(f"lengths={list(lengths)} must all be at least 1; leave empty documents out")
    counts = torch.tensor(list(lengths), dtype=torch.int64, device=device)
    segments = torch.arange(len(lengths), dtype=torch.int64, device=device).repeat_interleave(counts)
    starts = counts.cumsum(0) - counts
    return torch.arange(len(segments), dtype=torch.int64, device=device) - starts[segments], segments


def check(
    positions: Int[Tensor, "*shape"],
    name: str = "positions",
    limit: int = LIMIT,
    *,
    axes: int = 1,
    signed: bool = False,
) -> None:
    """Refuse what is no position: another dtype or shape, below 0 (or −limit, if signed), or at ``limit`` and beyond.

    On the CPU a value out of range raises here. Where looking would wait for a device, or something traces, the
    check is an asynchronous assertion.
    """
    if positions.dtype != torch.int64:
        raise InvalidArgument(
            f"{name} is {positions.dtype}; positions are exact integers: pass torch.int64 (never the model's dtype)"
        )
    if axes == 1 and positions.dim() not in (1, 2):
        raise InvalidArgument(f"{name} has shape {tuple(positions.shape)}; expected (T,) or (B, T)")
    if axes > 1 and (positions.dim() not in (2, 3) or positions.shape[0] != axes):
        raise InvalidArgument(
            f"{name} has shape {tuple(positions.shape)}; this encoding has {axes} axes: expected ({axes}, T) or "
            f"({axes}, B, T), and for plain text the same positions {axes} times: positions.expand({axes}, -1)"
        )
    lowest = 1 - limit if signed else 0
    if positions.numel() == 0 or positions.is_meta:
        return
    if not torch.compiler.is_compiling():
        while torch._C._functorch.is_functorch_wrapped_tensor(positions):  # vmap: all rows at once
            positions = torch._C._functorch.get_unwrapped(positions)
    if not readable(positions):
        inside = ((positions >= lowest) & (positions < limit)).all()
        torch._assert_async(inside, f"{name} leaves the range {lowest} … {limit - 1}")
        return
    low, high = (int(v) for v in positions.aminmax())
    if low < lowest:
        raise PositionOutOfRange(f"{name} holds {low}; positions start at {lowest}")
    if high >= limit:
        raise PositionOutOfRange(f"{name} holds {high}; the last position here is {limit - 1}")


def readable(tensor: Tensor) -> bool:
    """Whether looking at values is free and possible: a real tensor in the processor's own memory, nothing tracing."""
    return (
        not torch.compiler.is_compiling()
        and tensor.device.type == "cpu"
        and type(tensor) is Tensor
        and torch._C._len_torch_dispatch_stack() == 0
    )
