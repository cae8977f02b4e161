"""The versions and the hardware of a run, as stored in the ledger, and what this machine allows."""

import ctypes
import json
import math
import os
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from posenc import __version__
from posenc.errors import InvalidArgument, first_line

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""The file in which Linux stores a control group's quota, in microseconds of processor time per period."""


@cache
def versions() -> str:
    """Return, as JSON, the versions of Python, torch and posenc, all of which affect a run's results."""
    return json.dumps({"posenc": __version__, "torch": torch.__version__, "python": platform.python_version()})


@cache
def hardware(device: str = "cpu") -> str:
    """Return the name of the accelerator, or the CPU's name with the numbers of cores and of threads per run."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{_processor()}, {cores()} cores, {threads} thread{'s' * (threads > 1)} per run"


def check_device(device: str) -> None:
    """Refuse a device that is not available on this machine."""
    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InvalidArgument(  # without the sentences in which torch lists the backends of an operator
            f"device={device!r} cannot be used here ({first_line(error).partition('. ')[0]}); use cpu"
        ) from error


def cores() -> int:
    """Return the number of cores that this process's CPU affinity and control-group quota allow it to use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or "max"
        quota, period = QUOTA.read_text().split()
        usable = min(usable, math.ceil(int(quota) / int(period)))
    return usable


def trim() -> None:
    """Return freed memory to the operating system, because glibc would keep it for later allocations."""
    with suppress(AttributeError, OSError, TypeError):  # other C libraries do this by themselves
        ctypes.CDLL(None).malloc_trim(0)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
