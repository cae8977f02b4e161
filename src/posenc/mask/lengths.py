"""Functions that read the lengths of documents and padding from the tensors of a mask, and that convert chunks to
documents.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.kernels.memory import is_concrete

T = TypeVar("T")
Lengths = tuple[tuple[int, ...], ...]
"""The lengths of the documents in every row, in order. If all rows have the same lengths, there is only one row."""


def common_names(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Renumber int64 numbers as 0 … 2S, so that any query and key compare as before: smaller, equal or larger."""
    rows = torch.broadcast_shapes(q.shape[:-1], k.shape[:-1])
    q, k = (x.expand(*rows, -1).contiguous() for x in (q, k))
    ascending = k.sort().values
    # The number of keys below x plus the number of keys not above x.
    q, k = (torch.searchsorted(ascending, x) + torch.searchsorted(ascending, x, right=True) for x in (q, k))
    return q, k


def known_lengths(
    name: str, declared: T | None, source: str, tensor: Any, read: Callable[[Tensor], T | None]
) -> T | None:
    """Read lengths from the tensor ``source`` if its values can be read on the CPU, and check declared lengths."""
    if tensor is None and declared is not None:
        raise InvalidArgument(
            f"{name}={declared} is given without {source}, which it describes; pass {source} as well"
        )
    if not isinstance(tensor, Tensor) or tensor.device.type != "cpu" or not is_concrete(tensor):
        return declared  # tree_map may replace tensors by anything
    lengths = read(tensor)
    if declared is not None and declared != lengths:
        raise InvalidArgument(
            f"{name}={declared} does not match {source}, whose lengths are {lengths}; omit {name}"
        )
    return lengths


def document_lengths(segments: Tensor, of_keys: Tensor | None) -> Lengths | None:
    """Return the lengths of the documents in every row, if documents are contiguous and queries and keys are the
    same tokens.
    """
    keys = segments if of_keys is None else of_keys
    comparable = keys.device == segments.device and is_concrete(keys)
    if not segments.dim() or not comparable or not (keys is segments or torch.equal(segments, keys)):
        return None
    rows = []
    for row in segments.reshape(-1, segments.shape[-1]) if segments.numel() else ():
        names, lengths = row.unique_consecutive(return_counts=True)
        if len(names.unique()) < len(names):
            return None
        rows.append(tuple(lengths.tolist()))
    return tuple(rows) or None


def left_padding(key_mask: Tensor) -> tuple[int, ...] | None:
    """Return the number of hidden keys in every row, if all hidden keys are at the start of their row."""
    if key_mask.dim() != 2:
        return None
    hidden = key_mask.shape[1] - key_mask.sum(-1)
    at_start = torch.arange(key_mask.shape[1], device=key_mask.device) >= hidden[:, None]
    if not key_mask.numel() or not torch.equal(key_mask, at_start):
        return None
    return tuple(hidden.tolist())


def documents_of_chunks(
    chunk: int,
    places: tuple[Tensor, Tensor],
    segments: tuple[Tensor | None, Tensor | None],
    key_mask: Tensor | None,
    from_first_token: bool,
) -> tuple[Tensor, Tensor]:
    """Treat every chunk as a document, and return the document of every query and key.

    ``places`` are the indices of queries and keys in the sequence. Chunks start at index 0, or at the first real
    token of each document.
    """
    (q, k), (q_segments, k_segments) = places, segments
    S = k.shape[-1]
    q_names, k_names = torch.zeros_like(q), torch.zeros_like(k)
    if q_segments is not None and k_segments is not None:
        q_names, k_names = common_names(q_segments, k_segments)
    if from_first_token and not (q_segments is None and key_mask is None):
        real = k if key_mask is None else k.masked_fill(~key_mask, S)
        real, k_names = torch.broadcast_tensors(real, k_names)
        starts = real.new_full((*real.shape[:-1], 2 * S + 1), S).scatter_reduce(-1, k_names, real, "amin")
        q_names = q_names.expand(*starts.shape[:-1], -1)
        q, k = q - starts.gather(-1, q_names), k - starts.gather(-1, k_names)
        q, k = q.clamp(min=0), k.clamp(min=0)  # padding before the first token belongs to its chunk
    q, k = q // chunk, k // chunk
    if q_segments is not None:
        q, k = (a + b * (2 * S + 1) for a, b in zip(common_names(q, k), (q_names, k_names), strict=True))
    return q, k
