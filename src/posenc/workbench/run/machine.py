"""Versions and hardware of a run, as its ledger holds them."""

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

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of processor time in each period of so many, as Linux shows a control group its own."""


@cache
def versions() -> str:
    """Versions that decide the numbers, as JSON."""
    return json.dumps({"posenc": __version__, "torch": torch.__version__, "python": platform.python_version()})


@cache
def hardware(device: str = "cpu") -> str:
    """Processor, cores and threads, or the accelerator's name."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{_processor()}, {cores()} cores, {threads} thread{'s' * (threads > 1)} a run"


def cores() -> int:
    """The cores that this process may use: those that it may run on, within its control group's quota."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or "max"
        quota, period = QUOTA.read_text().split()
        usable = min(usable, math.ceil(int(quota) / int(period)))
    return usable


def trim() -> None:
    """Give the system back what was freed, which glibc keeps for each thread."""
    with suppress(AttributeError, OSError, TypeError):  # another C library decides by itself
        ctypes.CDLL(None).malloc_trim(0)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
            return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()
