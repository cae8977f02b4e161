"""Checks of tensors and memory, such as whether tensors share memory and whether their values can be read."""

import os
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd import forward_ad

MEMINFO = Path("/proc/meminfo")


def is_concrete(*tensors: Tensor) -> bool:
    """Return whether the tensors are plain tensors, which are not traced, fake, transformed, or on the meta
    device.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or torch._C._is_tracing():
        return False
    for x in tensors:  # noqa: SIM110  asked in every call, where a generator is a call for each
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
    """Return whether a condition on lengths holds. An exported graph has one branch, so the condition must hold for
    all its lengths.
    """
    if not torch.compiler.is_exporting():
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # loaded by the exporter

    return statically_known_true(condition)


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
    """Return the number of available bytes on the device. Cached files count as available; on a Mac, return the
    total memory.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if MEMINFO.exists():  # Linux
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
