"""Makes position tensors: plain, with an offset, left-padded (from a mask), packed (from lengths), sharded.

A position is an int64 from 0 to 2^31−1. It is never made from an activation's dtype and never a bare length:
caches, padding, packing and sharded sequences are a matter of which positions are passed, and of nothing else.
"""

import itertools
import operator
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
    length, offset = _whole(length, "length"), _whole(offset, "offset")
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
    lengths = [_whole(n, f"lengths[{i}]") for i, n in enumerate(lengths)]
    if any(n < 1 for n in lengths):
        raise InvalidArgument(f"lengths={lengths} must all be at least 1; leave empty documents out")
    counts = torch.tensor(lengths, dtype=torch.int64, device=device)
    segments = torch.arange(len(lengths), dtype=torch.int64, device=device).repeat_interleave(counts)
    starts = counts.cumsum(0) - counts
    return torch.arange(len(segments), dtype=torch.int64, device=device) - starts[segments], segments


def from_cu_seqlens(cu_seqlens: Int[Tensor, " N"]) -> tuple[Int[Tensor, " T"], Int[Tensor, " T"]]:
    """Positions and segments of documents laid end to end, from the bounds that FlashAttention's varlen calls take.

    ``cu_seqlens`` is ``0, n₁, n₁+n₂, …``, ascending: ``[0, 2, 5]`` → ``[0 1 0 1 2]``, ``[0 0 1 1 1]``.
    """
    bounds = cu_seqlens.tolist()
    if len(bounds) < 1 or bounds[0] != 0:
        raise InvalidArgument(f"cu_seqlens={bounds[:4]}… must start at 0 and end at the number of tokens")
    return packed([b - a for a, b in itertools.pairwise(bounds)], device=cu_seqlens.device)


def sharded(
    length: int, rank: int, ranks: int, *, zigzag: bool = False, device: Device = None
) -> Int[Tensor, " T"]:
    """The places in a sequence of ``length`` tokens that one of ``ranks`` ranks holds.

    In one piece, or with ``zigzag`` as piece ``rank`` from the front and piece ``rank`` from the back, so that
    under a causal mask every rank has the same work. They serve as positions and as ``Sight.q_order``; index the
    tokens by them too.
    """
    pieces = 2 * ranks if zigzag else ranks
    if not 0 <= rank < ranks:
        raise InvalidArgument(f"rank={rank} must lie between 0 and ranks−1={ranks - 1}")
    if length % pieces:
        raise InvalidArgument(f"length={length} must be a multiple of {pieces} to be cut for {ranks} ranks; pad it")
    own = (rank, pieces - 1 - rank) if zigzag else (rank,)
    size = length // pieces
    return torch.cat([plain(size, offset=piece * size, device=device) for piece in own])


def check(
    positions: Int[Tensor, "*shape"],
    name: str = "positions",
    limit: int = LIMIT,
    *,
    axes: int = 1,
    signed: bool = False,
) -> None:
    """Refuse what is no position: another type or shape, below 0 (−limit where signed), or at ``limit`` and beyond.

    On the CPU a value out of range raises here. Where nobody may look (traced, fake, or on another device, where
    looking would wait for it) the check is an asynchronous assertion.
    """
    if not isinstance(positions, Tensor):
        raise InvalidArgument(
            f"{name}={positions!r} is no tensor; expected int64 (T,) or (B, T): positions.plain(length), or "
            "torch.tensor([…])"
        )
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
    extremes = _extremes(positions)
    if extremes is None:
        inside = ((positions >= lowest) & (positions < limit)).all()
        torch._assert_async(inside, f"{name} leaves the range {lowest} … {limit - 1}")
        return
    low, high = extremes
    if low < lowest:
        raise PositionOutOfRange(f"{name} holds {low}; positions start at {lowest}")
    if high >= limit:
        raise PositionOutOfRange(f"{name} holds {high}; the last position here is {limit - 1}")


def _extremes(positions: Tensor) -> tuple[int, int] | None:
    """The lowest and the highest position; None where values cannot be looked at."""
    if torch.compiler.is_compiling() or positions.device.type != "cpu":
        return None
    while torch._C._functorch.is_functorch_wrapped_tensor(positions):  # vmap: all rows at once
        positions = torch._C._functorch.get_unwrapped(positions)
    if type(positions) not in (Tensor, torch.nn.Parameter):
        return None
    try:
        low, high = (int(v) for v in positions.aminmax())
    except RuntimeError:  # a tracer follows this tensor
        return None
    return low, high


def _whole(value: int, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{name}={value!r} must be an integer; use int(…)") from None
