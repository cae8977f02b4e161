"""Write the measurements as one dated Markdown page: the targets first, then every table."""

import os
import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks import growth
from benchmarks.measure import Result, Table

PEERS = ("torch", "transformers", "x-transformers", "rotary-embedding-torch")


def lines(results: list[Result], table: Table) -> Iterable[str]:
    """Yield a table's rows: times of the green ones, errors of the red ones."""
    yield f"### {table.title}"
    yield ""
    yield "| row | ratio | middle half | ms | GB/s | share of floor | peak MB | error |"
    yield "|---|---|---|---|---|---|---|---|"
    base = results[0]
    for result in results:
        if result.error is not None:
            yield f"| {result.row.name} | red: {result.error} | | | | | | |"
            continue
        low, high = result.spread
        speed = share = ""
        if table.bytes:
            speed = f"{table.bytes / result.median / 1e9:.1f}"
            share = f"{base.median / result.median:.0%}"
        error = "" if result.deviation is None else f"{result.deviation:.1e}"
        yield (
            f"| {result.row.name} | **{result.ratio:.2f}** | {low:.2f}–{high:.2f} | {result.median * 1e3:.2f} "
            f"| {speed} | {share} | {(result.peak or 0) / 1e6:.1f} | {error} |"
        )
    yield ""
    if table.note:
        yield table.note
        yield ""


def targets(measured: list[tuple[Table, list[Result]]]) -> Iterable[str]:
    """Yield all targets, met or missed; a red row misses its target."""
    yield "| job | row | target | measured | |"
    yield "|---|---|---|---|---|"
    for table, results in measured:
        for result in results:
            target = result.row.target
            if target is None:
                continue
            if result.error is not None:
                yield f"| {table.title} | {result.row.name} | {target:g} | red | missed: {result.error} |"
                continue
            verdict = "met" if result.ratio <= target else f"missed{_by(table, results[0], result)}"
            yield f"| {table.title} | {result.row.name} | {target:g} | {result.ratio:.2f} | {verdict} |"
    yield ""


def _by(table: Table, base: Result, result: Result) -> str:
    """Return by how much a row misses its target, in bytes per second or in time."""
    if table.bytes:
        speeds = [table.bytes / r.median / 1e9 for r in (result, base)]
        return f": {speeds[0]:.1f} GB/s, while {base.row.name} moves {speeds[1]:.1f}"
    assert result.row.target is not None
    return f": {1e6 * (result.ratio - result.row.target) * base.median:.0f} µs over"


def slug(device: str) -> str:
    """Return the processor's name for a file name: ``amd-epyc``."""
    name = torch.cuda.get_device_name() if device == "cuda" else _processor().partition(" (")[0]
    return "-".join(re.findall(r"[a-z0-9]+", name.lower().replace("(r)", "").replace("(tm)", "")))


def growth_lines(found: list[growth.Growth]) -> Iterable[str]:
    yield "## Growth with the length"
    yield ""
    yield f"Costs at L, 2L, 4L and 8L, and the fitted exponent, whose target, if any, is at most {growth.TARGET}."
    yield ""
    yield "| cost | L | at L | 2L | 4L | 8L | exponent | |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in found:
        costs = " | ".join(
            f"{cost * 1e3:.2f} ms" if row.unit == "s" else f"{cost / 1e6:.2f} MB" for cost in row.costs
        )
        verdict = "" if row.target is None else "met" if row.exponent <= row.target else "missed"
        yield f"| {row.name} | {row.lengths[0]} | {costs} | {row.exponent:.2f} | {verdict} |"
    yield ""


def accuracy_lines(table: dict[str, dict[str, float]]) -> Iterable[str]:
    yield "## Accuracy of cos and sin"
    yield ""
    yield "Largest error over 200 positions between half of each limit and the limit; 64 pairs, base 10 000."
    yield ""
    limits = next(iter(table.values()))
    yield "| method | " + " | ".join(limits) + " |"
    yield "|---" * (len(limits) + 1) + "|"
    for name, errors in table.items():
        yield f"| {name} | " + " | ".join(f"{error:.1e}" for error in errors.values()) + " |"
    yield ""


def machine(device: str) -> str:
    """Return processor, cores, threads, load and versions, in two sentences."""
    processor = torch.cuda.get_device_name() if device == "cuda" else _processor()
    load = f"; load average {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    versions = []
    for package in PEERS:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} not installed")
    return (
        f"{processor}, {os.cpu_count()} cores, {torch.get_num_threads()} used{load}. "
        f"Python {platform.python_version()}, {', '.join(versions)}."
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                instructions = torch.backends.cpu.get_cpu_capability()
                return f"{line.partition(':')[2].strip()} ({instructions})"
    return platform.processor() or sys.platform
