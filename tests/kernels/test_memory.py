"""Free memory is what can be had without swapping, on systems that say it in other words."""

import os
from pathlib import Path

import pytest
import torch

from posenc.kernels import memory
from posenc.kernels.memory import free_memory


def test_files_kept_in_memory_do_not_count_as_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:  24000 kB\nMemFree:  100 kB\nMemAvailable:    17000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", file)
    assert free_memory(torch.device("cpu")) == 17000 * 1024


def test_a_system_without_a_count_of_free_pages_has_all_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""

    def sysconf(name: str) -> int:
        known = {"SC_PHYS_PAGES": 2**21, "SC_PAGE_SIZE": 2**14}
        if name not in known:
            raise ValueError("unrecognized configuration name")
        return known[name]

    monkeypatch.setattr(memory, "MEMINFO", Path("/nowhere"))
    monkeypatch.setattr(os, "sysconf", sysconf)
    assert free_memory(torch.device("cpu")) == 2**35
