"""Positions on one axis: with an offset, packed (from lengths) or sharded."""

import itertools
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.arguments import as_integer, at_least, instance, tensors
from posenc.errors import InvalidArgument, PositionOutOfRange
from posenc.kernels.memory import LIMIT
from posenc.positions.grids import Device


def arange(length: int, *, offset: int = 0, device: Device = None) -> Int[Tensor, " T"]:
    """Return the positions ``offset, offset+1, …`` of a sequence, or of the next ``length`` tokens after
    ``offset`` cached tokens.
    """
    length, offset = at_least(0)(length, "length"), as_integer(offset, "offset")
    if offset < 0 or offset + length > LIMIT:
        raise PositionOutOfRange(
            f"offset={offset} with length={length} gives positions outside 0 … {LIMIT - 1}; use a smaller offset "
            "or length"
        )
    return torch.arange(offset, offset + length, dtype=torch.int64, device=device)


def on_axes(positions: Int[Tensor, "*shape"], axes: int) -> Int[Tensor, "*more"]:
    """Return positions of text for an encoding with ``axes`` axes. Positions are equal on all axes. If there are
    several axes, they are the first dimension of the result.
    """
    return positions if axes == 1 else positions.expand(axes, *positions.shape)


def packed(lengths: Sequence[int], *, device: Device = None) -> tuple[Int[Tensor, " T"], Int[Tensor, " T"]]:
    """Return positions and segments of concatenated documents, ``[0 1 0 1 2]`` and ``[0 0 1 1 1]`` for lengths
    ``[2, 3]``.

    Pass the segments to attention, so that tokens of a document do not see other documents.
    """
    instance(lengths, Iterable, "lengths", "the length of every document, such as [2, 3]")
    lengths = [at_least(1, "; omit empty documents")(n, f"lengths[{i}]") for i, n in enumerate(lengths)]
    counts = torch.tensor(lengths, dtype=torch.int64, device=device)
    segments = torch.arange(len(lengths), dtype=torch.int64, device=device).repeat_interleave(counts)
    starts = counts.cumsum(0) - counts
    return torch.arange(len(segments), dtype=torch.int64, device=device) - starts[segments], segments


def from_cu_seqlens(cu_seqlens: Int[Tensor, " N"]) -> tuple[Int[Tensor, " T"], Int[Tensor, " T"]]:
    """Return positions and segments of concatenated documents, from the ``cu_seqlens`` of FlashAttention's varlen
    calls.

    ``cu_seqlens`` is ``0, n₁, n₁+n₂, …``, ascending: ``[0, 2, 5]`` → ``[0 1 0 1 2]``, ``[0 0 1 1 1]``.
    """
    tensors(cu_seqlens=cu_seqlens)
    bounds = cu_seqlens.flatten().tolist()
    if cu_seqlens.dtype not in (torch.int32, torch.int64) or cu_seqlens.dim() != 1 or bounds[:1] != [0]:
        raise InvalidArgument(
            f"cu_seqlens is {cu_seqlens.dtype} of shape {tuple(cu_seqlens.shape)} and starts with {bounds[:4]}; "
            "it must be int32 or int64 of shape (N,), starting with 0 and ending with the number of tokens"
        )
    if any(a >= b for a, b in itertools.pairwise(bounds)):
        at = next(i for i, (a, b) in enumerate(itertools.pairwise(bounds)) if a >= b)
        raise InvalidArgument(
            f"cu_seqlens goes from {bounds[at]} to {bounds[at + 1]} at index {at + 1}, but every document must "
            "have at least one token; omit empty documents"
        )
    return packed([b - a for a, b in itertools.pairwise(bounds)], device=cu_seqlens.device)


def sharded(
    length: int, rank: int, ranks: int, *, zigzag: bool = False, device: Device = None
) -> Int[Tensor, " T"]:
    """Return the indices of a rank's tokens in a sequence of ``length`` tokens that is sharded over ``ranks``
    ranks.

    By default, a rank has one contiguous piece. With ``zigzag``, it has piece ``rank`` from the front and piece
    ``rank`` from the back, so that all ranks have equal work with a causal mask. Use the result as positions, as
    ``Mask.q_order``, and as indices of the rank's tokens.
    """
    length, rank, ranks = as_integer(length, "length"), as_integer(rank, "rank"), as_integer(ranks, "ranks")
    pieces = 2 * ranks if zigzag else ranks
    if not 0 <= rank < ranks:
        raise InvalidArgument(f"rank={rank} must be between 0 and ranks−1={ranks - 1}")
    if length % pieces:
        raise InvalidArgument(f"length={length} must be a multiple of {pieces} for {ranks} ranks; pad the sequence")
    pieces_here = (rank, pieces - 1 - rank) if zigzag else (rank,)
    size = length // pieces
    return torch.cat([arange(size, offset=piece * size, device=device) for piece in pieces_here])
