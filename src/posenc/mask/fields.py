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

``axes`` names the axes: ``b`` for rows of the batch, ``h`` for heads, ``q`` for queries, ``k`` for keys. Integers
may lack ``b``; b and h may have size 1. ``truth`` is for booleans, which hide a key if they are False: it says
what True means and how to convert other dtypes.

These properties are enough to check, copy, slice and shard the field and to pass it to FlexAttention. Booleans
need nothing else; the meaning of integers is defined by a line in ``Mask.sees``.
"""

PER_QUERY, PER_KEY = {"axes": "bq"}, {"axes": "bk"}


def declared(names: Mapping[str, Any]) -> dict[str, Row]:
    """Return the tensor fields that a class declares in its body."""
    return {name: x.metadata for name, x in names.items() if isinstance(x, Field) and "axes" in x.metadata}


def whole(**sizes: Any) -> dict[str, int | None]:
    """Check and convert sizes, which may be of any integer type or None."""
    for name, size in sizes.items():
        if size is not None and not (type(size) is int and size >= 1):
            sizes[name] = at_least(1, f", or None for no {name}")(size, name)
    return sizes


def per(axes: str) -> str:
    return "per query" if "q" in axes else "per key"


def copied(name: str, x: Tensor, row: Row) -> Tensor:
    """Check that a tensor fits its field, and copy it as int64 or bool. In narrower integers, differences of
    places would overflow."""
    axes, truth = row["axes"], row.get("truth")
    if truth is not None and (x.dtype != torch.bool or x.dim() != len(axes)):
        shape = ", ".join([{"b": "B", "h": "H", "q": "T", "k": "S"}[axis] for axis in axes])
        raise InvalidArgument(f"{name} is {x.dtype} with shape {tuple(x.shape)}; expected bool ({shape}), {truth}")
    if truth is not None:
        return x.clone()
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        raise InvalidArgument(f"{name} is {x.dtype}; expected integers: pass {name}.long()")
    if not x.dim():
        raise InvalidArgument(f"{name} is one number, {x.item()}; expected one {per(axes)}")
    return x.to(torch.int64, copy=True)
