"""Checks of tensors and memory, such as whether tensors share memory, whether their values can be read, and whether
positions are in range.
"""

import os
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor
from torch.autograd import forward_ad

from posenc.arguments import instance
from posenc.errors import InvalidArgument, PositionOutOfRange

LIMIT = 2**31
"""The limit of positions. Positions must be below this limit, so that phases are exact and all kernels can use
them.
"""

MEMINFO = Path("/proc/meminfo")


def is_concrete(*tensors: Tensor) -> bool:
    """Return whether the tensors are plain tensors: none of them is traced, fake, transformed, or on the meta
    device.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or torch._C._is_tracing():
        return False
    for x in tensors:  # noqa: SIM110  runs in every call; a generator is slower
        if type(x) not in (Tensor, torch.nn.Parameter) or x.is_meta:
            return False
    return True


def is_transformed() -> bool:
    """Return whether a function transform or a forward-mode derivative is active; both support only basic
    operators.
    """
    return not torch.compiler.is_compiling() and (
        torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    )


def is_recorded(*tensors: Tensor) -> bool:
    """Return whether autograd, in backward or forward mode, must record operations on these tensors."""
    recorded = torch.is_grad_enabled()
    for x in tensors:  # noqa: SIM110
        if (recorded and x.requires_grad) or forward_ad.unpack_dual(x).tangent is not None:
            return True
    return False


def plain_bool(flag: bool) -> bool:
    """Convert a flag to a plain bool. Under a compiler, a flag that was computed from lengths is symbolic, and
    sdpa does not accept symbolic flags.
    """
    if flag:  # noqa: SIM103  returning it would return the symbol
        return True
    return False


def is_certain(condition: bool) -> bool:
    """Return whether a condition on lengths holds. An exported graph contains only one branch, so during an export,
    the condition must hold for all lengths that the graph accepts.
    """
    if not torch.compiler.is_exporting():
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # loaded by the exporter

    return statically_known_true(condition)


def check_positions(
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
    if not isinstance(positions, Tensor):  # in every call
        fix = "an integer tensor of shape (T,) or (B, T), such as positions.arange(length) or torch.tensor([…])"
        instance(positions, Tensor, name, fix)
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
        raise PositionOutOfRange(f"{name} contains {low}; the lowest allowed position is {lowest}")
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


def floats(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """Reinterpret the bits of integers as floats. Under ``torch.jit.trace``, which cannot record this conversion,
    the result is a constant.
    """
    if torch.compiler.is_compiling():
        return bits.view(dtype)
    trace = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    x = bits.view(dtype)
    torch._C._set_tracing_state(trace)  # type: ignore[attr-defined]
    return x


def overlap(a: Tensor, b: Tensor) -> bool:
    """Return whether elements of a and b share memory. The result is exact for tensors of the same dtype.

    The q, k and v slices of one projection are interleaved but share no elements. If the memory ranges of a and b
    overlap, the elements of a are marked in a bool tensor that covers both ranges; then a and b share memory if an
    element of b is marked.
    """
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr() or not a.numel() or not b.numel():
        return False
    ranges = [(x.data_ptr(), x.data_ptr() + (_span(x) * x.element_size())) for x in (a, b)]
    if ranges[0][1] <= ranges[1][0] or ranges[1][1] <= ranges[0][0]:
        return False
    if a.dtype != b.dtype:
        return True
    first = min(a.storage_offset(), b.storage_offset())
    ends = [x.storage_offset() - first + _span(x) for x in (a, b)]
    marks = torch.zeros(max(ends), dtype=torch.bool, device=a.device)
    marks.as_strided(a.shape, a.stride(), a.storage_offset() - first).fill_(True)
    return bool(marks.as_strided(b.shape, b.stride(), b.storage_offset() - first).any())


def _span(x: Tensor) -> int:
    """Return the number of elements from the first to the last element of x in memory, inclusive."""
    return 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))


def free_memory(device: torch.device) -> int:
    """Return the number of available bytes on the device. On Linux, memory that caches files counts as available.
    On a Mac, the result is the total memory, whether available or not.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if MEMINFO.exists():  # Linux
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
