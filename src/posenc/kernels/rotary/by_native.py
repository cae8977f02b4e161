"""Rotation by the native kernel, in one pass over memory. Results equal those of ``specification.rotate`` bit for
bit."""

import ctypes
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from posenc.kernels import native
from posenc.kernels.backend import by_name
from posenc.kernels.native import Job
from posenc.kernels.rotary.specification import Pairing, rotate

Pair = tuple[Tensor, Tensor]
"""A pair of tables, cos and sin."""

PLAIN = {Tensor, torch.nn.Parameter}
"""The classes of tensors whose memory the kernel reads. A tensor of another class may have no memory, or its memory
may hold something other than its values.
"""

TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}

WORK = {torch.float64: torch.float64}
"""For each dtype of x, the dtype of the kernel's arithmetic and tables; by default float32."""

SHARE = 1 << 18
"""The smallest number of bytes per thread."""


def by_native(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, out: Tensor | None) -> Tensor:
    """Rotate x by the tables cos and sin, into new memory or into ``out``, which may be x itself.

    ``specification.rotate`` is used instead if the kernel cannot read the tensors (tables wider than x,
    non-contiguous channels, vmapped axes), and under torch's dispatch modes, which see only operators.
    """
    y = torch.empty_like(x) if out is None else out
    tables, work = (cos, sin), WORK.get(x.dtype, torch.float32)
    if cos.dtype == sin.dtype and not _fits(x, *tables) and torch.promote_types(x.dtype, cos.dtype) == work:
        tables = cos.to(work).contiguous(), sin.to(work).contiguous()
    alike = type(y) in PLAIN and not y.is_neg() and (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    job = None
    if alike and _fits(x, *tables) and not torch._C._len_torch_dispatch_stack():
        strides = x.stride(), y.stride(), tables[0].stride()
        job = _job(x.shape, cos.shape, strides, x.dtype, pairing, torch.get_num_threads())
    if job is None:
        return y.copy_(rotate(x, cos, sin, cast(Pairing, pairing)))
    refused = native.load().posenc_rotate(ctypes.byref(job), *map(Tensor.data_ptr, (x, y, *tables)))
    assert not refused
    return y


class Step:
    """A prepared call of the kernel, which can rotate any q and k of the same shapes and strides.

    In a decoding step, the rotation's arithmetic takes one microsecond and the surrounding code takes twenty
    microseconds, so values that are equal in all layers are computed once.
    """

    def __init__(self, kind: tuple[object, ...], jobs: ctypes.Array[Job], tables: tuple[Tensor, ...]) -> None:
        self.kind = kind
        addresses = (ctypes.c_void_p * 4)(*map(Tensor.data_ptr, tables))
        self.orders = ctypes.addressof(jobs), ctypes.addressof(addresses)
        self.behind_addresses = jobs, addresses, tables
        self.run = native.load().posenc_rotate_both

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Any, Any] | None:
        """Rotate q and k into new tensors. Return None if q or k differs in dtype, shape or strides from the
        tensors for which the step was prepared, or if ``_is_seen`` rules out the kernel.
        """
        if _kind(q, k) != self.kind or _is_seen(q, k):
            return None
        q_rotated, k_rotated = torch.empty_like(q), torch.empty_like(k)
        refused = self.run(*self.orders, q.data_ptr(), q_rotated.data_ptr(), k.data_ptr(), k_rotated.data_ptr())
        assert not refused
        return q_rotated, k_rotated


def step(q: Tensor, k: Tensor, q_pair: Pair, k_pair: Pair, pairing: str, backend: str) -> Step | None:
    """Prepare a step for tensors like q and k; return None if another backend rotates them, if autograd records
    operations on them or on the tables, or if the kernel cannot read such tensors directly.
    """
    if (
        _is_seen(q, k)
        or by_name(backend, q.device.type) != "native"
        or not _fits(q, *q_pair)
        or not _fits(k, *k_pair)
    ):
        return None
    kind = _kind(q, k)
    tables = tuple([(cos.shape, cos.stride()) for cos, _ in (q_pair, k_pair)])
    jobs = _jobs(kind, tables, pairing, torch.get_num_threads())
    return None if jobs is None else Step(kind, jobs, (*q_pair, *k_pair))


@lru_cache
def _jobs(
    kind: tuple[Any, ...], tables: tuple[tuple[torch.Size, tuple[int, ...]], ...], pairing: str, threads: int
) -> ctypes.Array[Job] | None:
    """Return the kernel calls of a step, without their tables, or None if the kernel cannot rotate q or k."""
    jobs: list[Job] = []
    for (dtype, _, shape, strides), (table, table_strides) in zip((kind[2::2], kind[3::2]), tables, strict=True):
        fresh = torch.empty_like(
            torch.empty_strided(shape, strides, dtype=torch.uint8)
        ).stride()  # on the meta device, this would import sympy
        job = _job(shape, table, (strides, fresh, table_strides), dtype, pairing, threads)
        if job is None:
            return None
        jobs.append(job)
    return (Job * 2)(*jobs)


def _is_seen(q: Tensor, k: Tensor) -> bool:
    """Return whether the kernel must not be used. This is so in two cases: autograd, a function transform, a tracer
    or a dispatch mode must see the rotation; or torch has only flagged q or k as negated (``is_neg``), so that its
    memory contains the values before the negation.
    """
    return bool(
        q.is_neg()
        or k.is_neg()
        or (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad))
        or torch._C._are_functorch_transforms_active()
        or torch._C._is_tracing()
        or torch._C._len_torch_dispatch_stack()
        or forward_ad._current_level >= 0
    )


def _kind(q: Tensor, k: Tensor) -> tuple[object, ...]:
    return type(q), type(k), q.dtype, k.dtype, q.is_cpu, k.is_cpu, q.shape, k.shape, q.stride(), k.stride()


def _fits(x: Tensor, cos: Tensor, sin: Tensor) -> bool:
    """Return whether the kernel can read x, cos and sin directly and neither cos nor sin requires gradients."""
    return (
        {type(x), type(cos), type(sin)} <= PLAIN
        and not (cos.requires_grad or sin.requires_grad)
        and not (x.is_neg() or cos.is_neg() or sin.is_neg())  # memory has the values before the negation
        and x.is_cpu
        and cos.is_cpu
        and sin.is_cpu
        and cos.dtype == sin.dtype == WORK.get(x.dtype, torch.float32)
        and cos.shape == sin.shape
        and cos.stride() == sin.stride()
        and cos.stride()[-1:] == (1,)
    )


@lru_cache(maxsize=1024)
def _job(
    shape: torch.Size,
    table: torch.Size,
    strides: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
    pairing: str,
    threads: int,
) -> Job | None:
    """Return the kernel call for tensors with these properties, or None if the kernel cannot read the tensors,
    the tables do not broadcast over x, or the tables have more pairs than x.
    """
    x, y, of_table = strides
    bytes_ = shape.numel() * dtype.itemsize
    if len(shape) != 4 or len(table) > 4 or x[-1] != 1 or y[-1] != 1 or dtype not in TYPES or not bytes_:
        return None
    batch, heads, tokens, channels = shape
    *rows, pairs = (1, 1, 1, *table)[-4:]
    if 2 * pairs > channels or any(n not in (1, size) for n, size in zip(rows, shape[:3], strict=True)):
        return None
    job = Job(batch, heads, tokens, pairs, channels - 2 * pairs)
    job.x, job.y = x[:3], y[:3]
    job.table = tuple(s if n > 1 else 0 for s, n in zip((0, 0, 0, *of_table)[-4:-1], rows, strict=True))
    job.type, job.half = TYPES[dtype], pairing == "half"
    job.threads = max(1, min(threads, bytes_ // SHARE))
    return job
