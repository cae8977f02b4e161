"""Measure the rows of a table in turn, in one process, so that disturbances affect all of them.

The result of each row is first compared with float64; a row that is wrong is not timed.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Row:
    """One implementation of the table's task.

    Args:
        run: runs the implementation once, and returns the result.
        tolerance: the largest error, relative to 1 + |exact|, at which the row is green; None for rows that
            compute something else (a floor such as a copy).
        target: the largest ratio to the base that meets the project's target, if any.
        check: returns the result to compare with float64, if ``run`` changes its inputs.
    """

    name: str
    run: Callable[[], Outputs]
    tolerance: float | None = None
    target: float | None = None
    check: Callable[[], Outputs] | None = None


@dataclass(frozen=True)
class Table:
    """Rows that do the same task on the same inputs; times are ratios to the first row.

    Args:
        exact: returns the expected result in float64; called once.
        bytes: the bytes that any implementation must read and write; 0 if memory does not limit the speed.
    """

    title: str
    rows: list[Row]
    exact: Callable[[], Outputs]
    bytes: int = 0
    note: str = ""


@dataclass
class Result:
    """A measured row. If it is red, ``error`` says why, and it was not timed."""

    row: Row
    error: str | None = None
    deviation: float | None = None
    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    peak: int | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The middle half of the ratios."""
        if len(self.ratios) < 3:
            return min(self.ratios), max(self.ratios)
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high


def gate(row: Row, exact: Outputs, result: Result) -> None:
    """Record the error of the row's outputs; the row is red if the error exceeds the tolerance."""
    if row.tolerance is None:
        return
    got = (row.check or row.run)()
    if len(got) != len(exact):
        result.error = f"{len(got)} outputs instead of {len(exact)}"
        return
    worst = 0.0
    for ours, theirs in zip(got, exact, strict=True):
        if ours.shape != theirs.shape:
            result.error = f"shape {tuple(ours.shape)} instead of {tuple(theirs.shape)}"
            return
        difference = (ours.detach().double() - theirs).abs_().div_(theirs.abs() + 1)
        worst = max(worst, float(difference.max()))
        if bool(difference.isnan().any()):
            worst = float("nan")
    result.deviation = worst
    if not worst <= row.tolerance:
        result.error = f"error {worst:.1e} exceeds {row.tolerance:.1e}"


def measure(table: Table, seconds: float = 4.0, rounds: int = 25) -> list[Result]:
    """Check every row, then time the green ones in turn, for at most ``seconds`` or ``rounds``."""
    results = [Result(row) for row in table.rows]
    exact = table.exact()
    for result in results:
        gate(result.row, exact, result)
    del exact
    gc.collect()
    green = [result for result in results if result.error is None]
    for result in green:
        result.peak = peak_memory(result.row.run)  # and a warm-up
    begin = time.perf_counter()
    for number in range(rounds):
        if number >= 3 and time.perf_counter() - begin > seconds:
            break
        base = None
        for result in green:
            if number >= 3 and result is not green[0] and result.median > seconds / 20:
                continue  # three runs are enough for a slow row; the base runs in every round
            took = timed(result.row.run)
            base = took if base is None else base
            result.seconds.append(took)
            result.ratios.append(took / base)
    return results


def timed(run: Callable[[], Outputs]) -> float:
    """Return the seconds of one run, excluding the time in which its result is freed.

    A single thread is timed by processor time, which other programs hardly affect; several threads and GPUs are
    timed by the wall clock.
    """
    clock = time.process_time if counts_processor_time() else time.perf_counter
    _wait()
    begin = clock()
    kept = run()
    _wait()
    took = clock() - begin
    del kept
    return took


def counts_processor_time() -> bool:
    return torch.get_num_threads() == 1 and not torch.cuda.is_available()


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_memory(run: Callable[[], Outputs]) -> int:
    """Return the peak memory of one run in bytes, excluding its inputs and including its outputs."""
    if torch.cuda.is_available():
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        kept = run()
    del kept
    assert profile.profiler is not None
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Return the exponent with which the cost grows: the least-squares slope between the logarithms."""
    x, y = torch.tensor(sizes).double().log(), torch.tensor(costs).double().log()
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())
