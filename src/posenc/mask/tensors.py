"""The tensors of a mask: the axes that a field declares, the checks of its values, and what can be read from them:
lengths of documents and padding, and the positions of left-padded tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.arguments import ArgumentType, at_least, tensors
from posenc.errors import InvalidArgument
from posenc.kernels.memory import is_concrete

T = TypeVar("T")
Lengths = tuple[tuple[int, ...], ...]
"""The lengths of the documents in every row, in order. If all rows have the same lengths, there is only one row."""

Row = Mapping[str, str]
"""The properties of a field that holds a tensor.

``axes`` names the axes: ``b`` for rows of the batch, ``h`` for heads, ``q`` for queries, ``k`` for keys. Tensors
of integers need not have ``b``; b and h may have size 1. For boolean fields, error messages contain two strings:
``truth`` tells users what True means (False hides a key), and ``convert`` tells them how to convert other dtypes,
if not with ``.bool()``.

With these properties, a field can be checked, copied, sliced, sharded and passed to FlexAttention. Boolean
fields need no other code. The ``allows`` method of the class defines what a field of integers means.
"""


class MaskType(ArgumentType):
    """The metaclass of masks. Many calls to attention build a mask, so the constructor is called directly; only
    after a ``TypeError`` is the call repeated with the checks of ``ArgumentType``.
    """

    def __call__(cls, *arguments, **settings):  # type: ignore[no-untyped-def]  # noqa: N805
        try:
            return type.__call__(cls, *arguments, **settings)
        except TypeError:
            return super().__call__(*arguments, **settings)


PER_QUERY, PER_KEY = {"axes": "bq"}, {"axes": "bk"}


def declared(names: Mapping[str, Any]) -> dict[str, Row]:
    """Return the tensor fields that are declared in the body of a class."""
    return {name: x.metadata for name, x in names.items() if isinstance(x, Field) and "axes" in x.metadata}


def undeclared(name: str, kind: type) -> InvalidArgument:
    """Return the error for a field that holds a tensor but does not declare axes."""
    return InvalidArgument(
        f"the field {name} of {kind.__name__} holds a tensor, but does not declare the axes of the tensor; write "
        f"{name}: … = field(default=None, metadata=posenc.mask.PER_QUERY), or PER_KEY"
    )


def assign(mask: Any, **values: Any) -> None:
    """Set fields of a mask that is being built. In torch 2.8, compiled code cannot update ``vars(mask)``."""
    for name, value in values.items():
        object.__setattr__(mask, name, value)


def whole(**sizes: Any) -> dict[str, int | None]:
    """Check sizes, which may be None or integers of any type, and convert them to ints."""
    for name, size in sizes.items():
        if size is not None and not (type(size) is int and size >= 1):
            if isinstance(size, tuple | list):
                raise InvalidArgument(
                    f"{name}={size} must be one integer; for {name}s with two sizes, pass dense=…"
                )
            sizes[name] = at_least(1, f", or None for no {name}")(size, name)
    return sizes


def per(axes: str) -> str:
    return "per query" if "q" in axes else "per key"


def copied(name: str, x: Tensor, row: Row) -> Tensor:
    """Check that a tensor fits its field, and return a copy in int64 or bool. In narrower integers, differences
    could overflow.
    """
    if not isinstance(x, Tensor):  # in every call
        tensors(**{name: x})
    axes, truth = row["axes"], row.get("truth")
    if truth is not None and (x.dtype != torch.bool or x.dim() != len(axes)):
        shape = ", ".join([{"b": "B", "h": "H", "q": "T", "k": "S"}[axis] for axis in axes])
        missing = [None] * (len(axes) - x.dim())  # printed as an index, such as [None, None]
        first = f"{name}[:, None] for one mask per row of the batch, or " if x.dim() == 3 else ""
        fix = f"pass {first}{name}{missing}" if missing else "remove the other axes"
        fix = fix if x.dtype == torch.bool else row.get("convert", f"pass {name}.bool()")
        raise InvalidArgument(
            f"{name} is {x.dtype} with shape {tuple(x.shape)}; expected bool ({shape}), {truth}; {fix}"
        )
    if truth is not None:
        return x.clone()
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        raise InvalidArgument(f"{name} is {x.dtype}; expected integers; pass {name}.long()")
    if not x.dim():
        raise InvalidArgument(f"{name} is a single number, {x.item()}; expected one number {per(axes)}")
    return x.to(torch.int64, copy=True)


def on_all_axes(x: Tensor, axes: str) -> Tensor:
    """Reshape a tensor whose last axes are ``axes`` to ``(B, H, T, S)``; missing axes get size 1."""
    axes = axes[-x.dim() :]
    return x[tuple([slice(None) if axis in axes else None for axis in "bhqk"])]


def check_field(name: str, x: Tensor, axes: str, sizes: dict[str, int], device: torch.device) -> None:
    """Raise an error if a tensor of a mask does not fit these sizes and this device."""
    pairs = zip(axes[-x.dim() :], x.shape, strict=True)
    # A list instead of a generator: compilers mistrace ``any(… for …)`` here.
    if x.dim() > len(axes) or any([n != sizes[a] and (n != 1 or a in "qk") for a, n in pairs]):  # noqa: C419
        full = [sizes[axis] for axis in axes]
        row = f"({full[1]},) or (B, {full[1]}) with B={sizes['b']}: one {per(axes)}"
        expected = f"{tuple(full)}, in which B and H may be 1" if "h" in axes else row
        raise InvalidArgument(f"{name} has shape {tuple(x.shape)}; expected {expected}")
    if x.device != device:
        raise InvalidArgument(
            f"{name} is on {x.device} but q is on {device}; move {name} with .to({str(device)!r})"
        )


def common_names(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Replace the values of queries and keys by integers from 0 to 2S, where S is the number of keys. Every
    comparison of a query with a key (smaller, equal or larger) gives the same result as before.
    """
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
        return declared  # tree_map may replace tensors with anything
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


def left_padded(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Return positions that count only real tokens. The first real token of every row has position 0.

    ``mask`` is True for real tokens. Padding has position 0; hide padding with ``key_mask=mask`` in attention.
    """
    real = copied("mask", mask, {"axes": "bq", "truth": "true for real tokens"})
    return (real.to(torch.int64).cumsum(-1) - 1).clamp(min=0)


def documents_of_chunks(
    chunk: int,
    places: tuple[Tensor, Tensor],
    segments: tuple[Tensor | None, Tensor | None],
    key_mask: Tensor | None,
    from_first_token: bool,
) -> tuple[Tensor, Tensor]:
    """Treat every chunk as a document, and return the document of every query and key.

    ``places`` are the indices of queries and keys in the sequence. Chunks are counted from index 0 or, if
    ``from_first_token`` is true, from the first non-padding token of each document.
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
        q, k = q.clamp(min=0), k.clamp(min=0)  # padding before the first token belongs to that token's chunk
    q, k = q // chunk, k // chunk
    if q_segments is not None:
        q, k = (a + b * (2 * S + 1) for a, b in zip(common_names(q, k), (q_names, k_names), strict=True))
    return q, k
