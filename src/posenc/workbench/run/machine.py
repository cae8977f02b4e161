"""Versions and hardware of a run, as its ledger holds them."""

import json
import os
import platform
from functools import cache

import torch

from posenc import __version__


@cache
def versions() -> str:
    """Versions that decide the numbers, as JSON."""
    return json.dumps({"posenc": __version__, "torch": torch.__version__, "python": platform.python_version()})


@cache
def hardware(device: str = "cpu") -> str:
    """Processor and cores, or the accelerator's name."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
            return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()
