"""The properties of a mask's tensor fields, and the checks of their values."""

from collections.abc import Mapping
from dataclasses import Field
from typing import Any

import torch
from torch import Tensor

from posenc.arguments import at_least
from posenc.errors import InvalidArgument

Row = Mapping[str, str]
"""The properties of a field that holds a tensor.

``axes`` names the axes: ``b`` for rows of the batch, ``h`` for heads, ``q`` for queries, ``k`` for keys. Tensors
of integers need not have ``b``; b and h may have size 1. ``truth`` is the text that tells users of a boolean
field what True means and how to convert other dtypes; False hides a key.

With these properties, a field can be checked, copied, sliced, sharded and passed to FlexAttention. Boolean
fields need no other code. For a field of integers, ``allows`` of the class defines the meaning.
"""

PER_QUERY, PER_KEY = {"axes": "bq"}, {"axes": "bk"}


def declared(names: Mapping[str, Any]) -> dict[str, Row]:
    """Return the tensor fields that are declared in the body of a class."""
    return {name: x.metadata for name, x in names.items() if isinstance(x, Field) and "axes" in x.metadata}


def whole(**sizes: Any) -> dict[str, int | None]:
    """Check sizes, which may be None or integers of any type, and convert them to ints."""
    for name, size in sizes.items():
        if size is not None and not (type(size) is int and size >= 1):
            sizes[name] = at_least(1, f", or None for no {name}")(size, name)
    return sizes


def per(axes: str) -> str:
    return "per query" if "q" in axes else "per key"


def copied(name: str, x: Tensor, row: Row) -> Tensor:
    """Check that a tensor fits its field, and copy it to int64 or bool. In narrower integers, differences could
    overflow.
    """
    axes, truth = row["axes"], row.get("truth")
    if truth is not None and (x.dtype != torch.bool or x.dim() != len(axes)):
        shape = ", ".join([{"b": "B", "h": "H", "q": "T", "k": "S"}[axis] for axis in axes])
        raise InvalidArgument(f"{name} is {x.dtype} with shape {tuple(x.shape)}; expected bool ({shape}), {truth}")
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
