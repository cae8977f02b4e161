"""The range of valid positions, and a check that all positions in a tensor are valid."""

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import InvalidArgument, PositionOutOfRange

LIMIT = 2**31
"""The limit of positions. Positions must be below this limit, so that phases are exact and all kernels can use
them.
"""

Device = torch.device | str | None


def check(
    positions: Int[Tensor, "*shape"],
    name: str = "positions",
    limit: int = LIMIT,
    *,
    axes: int = 1,
    signed: bool = False,
    past_limit: str = "",
) -> None:
    """Raise an error if positions have an invalid dtype or shape, or are outside 0 … limit − 1 (or ±(limit − 1) if
    signed).

    If values cannot be read (they are traced or fake, or reading would synchronise with their device), an
    asynchronous assertion checks them. ``past_limit`` is the end of the message for a position beyond the limit; by
    default, the message states the last position.
    """
    if not isinstance(positions, Tensor):
        raise InvalidArgument(
            f"{name}={positions!r} must be an integer tensor of shape (T,) or (B, T), such as "
            "positions.arange(length) or torch.tensor([…])"
        )
    if positions.dtype not in (torch.int64, torch.int32):
        raise InvalidArgument(f"{name} is {positions.dtype}; positions must be exact integers: pass int64 or int32")
    positions = positions.long()
    if axes == 1 and positions.dim() not in (1, 2):
        raise InvalidArgument(f"{name} has shape {tuple(positions.shape)}; expected (T,) or (B, T)")
    if axes > 1 and (positions.dim() not in (2, 3) or positions.shape[0] != axes):
        raise InvalidArgument(
            f"{name} has shape {tuple(positions.shape)}; this encoding has {axes} axes, so positions must be "
            f"of shape ({axes}, T) or ({axes}, B, T); for plain text, repeat the positions with "
            f"positions.expand({axes}, -1)"
        )
    lowest = 1 - limit if signed else 0
    if positions.numel() == 0 or positions.is_meta:
        return
    extremes = _extremes(positions)
    if extremes is None:
        inside = ((positions >= lowest) & (positions < limit)).all()
        torch._assert_async(inside, f"{name} is outside the range {lowest} … {limit - 1}")
        return
    low, high = extremes
    if low < lowest:
        raise PositionOutOfRange(f"{name} contains {low}; the first position is {lowest}")
    if high >= limit:
        raise PositionOutOfRange(
            f"{name} contains {high}{past_limit or f'; the last position of this encoding is {limit - 1}'}"
        )


def _extremes(positions: Tensor) -> tuple[int, int] | None:
    """Return the lowest and the highest position; None if values cannot be read."""
    if torch.compiler.is_compiling() or positions.device.type != "cpu":
        return None
    while torch._C._functorch.is_functorch_wrapped_tensor(positions):  # vmap: check all rows together
        positions = torch._C._functorch.get_unwrapped(positions)
    if type(positions) not in (Tensor, torch.nn.Parameter):
        return None
    try:
        if positions.numel() == 1:  # a decoding step
            only = int(positions.item())
            return only, only
        low, high = positions.aminmax()
        return int(low), int(high)
    except RuntimeError:  # a tracer is recording this tensor
        return None
