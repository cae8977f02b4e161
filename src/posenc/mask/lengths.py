"""Functions that read the lengths of documents and padding from the tensors of a mask."""

import torch
from torch import Tensor

from posenc.kernels.memory import is_concrete

Lengths = tuple[tuple[int, ...], ...]
"""The lengths of the documents in every row, in order. If all rows have the same lengths, there is only one row."""


def common_names(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Map int64 numbers to 0 … 2S, so that order and equality between queries and keys are preserved."""
    rows = torch.broadcast_shapes(q.shape[:-1], k.shape[:-1])
    q, k = (x.expand(*rows, -1).contiguous() for x in (q, k))
    ascending = k.sort().values
    # The number of keys below x plus the number of keys not above x.
    q, k = (torch.searchsorted(ascending, x) + torch.searchsorted(ascending, x, right=True) for x in (q, k))
    return q, k


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
