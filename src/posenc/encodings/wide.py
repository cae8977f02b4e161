"""Linear maps in float32 or wider, without autocast, because 16-bit dtypes cannot represent the difference between
neighbouring large offsets.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def linear(
    x: Float[Tensor, "*shape n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, " m"] | None = None
) -> Float[Tensor, "*shape m"]:
    """Return x·Wᵀ + b."""
    compute_dtype = torch.promote_types(x.dtype, torch.float32)
    with unrounded(x):
        return F.linear(
            x.to(compute_dtype), weight.to(compute_dtype), None if bias is None else bias.to(compute_dtype)
        )


def product(x: Float[Tensor, "*shape n m"], y: Float[Tensor, "*shape2 m k"]) -> Float[Tensor, "*shape3 n k"]:
    """Return x @ y, computed in the widest of float32 and the dtypes of x and y."""
    compute_dtype = torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)
    with unrounded(x):
        return x.to(compute_dtype) @ y.to(compute_dtype)


def unrounded(x: Tensor) -> AbstractContextManager[object]:
    """Return a context that turns autocast off on the device of x. On the meta device, which has no autocast, the
    context does nothing.
    """
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def attended_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of x inside attention: autocast's dtype if autocast is on and x is not float64, or else x's
    own dtype.
    """
    device = x.device.type
    if x.dtype == torch.float64 or device == "meta" or not torch.is_autocast_enabled(device):
        return x.dtype
    return torch.get_autocast_dtype(device)


def widest(device: torch.device) -> torch.dtype:
    """Return float64, or float32 if the device does not support float64."""
    return torch.float32 if device.type == "mps" else torch.float64
