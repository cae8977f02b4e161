"""The local launcher: worker processes of one thread each, replaced when they die."""

import multiprocessing as mp
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.queues import Queue

from posenc.workbench.experiments.job import Failure, Job
from posenc.workbench.experiments.plan import Run

REPORT_EVERY = 0.25
"""Seconds between a worker's reports of its steps."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""glibc settings for the workers: keep freed activations instead of faulting the same pages in every step."""

_steps: "Queue[int]"


class Local:
    """Carries out jobs on this machine.

    Args:
        workers: processes at a time, by default one per core; each computes on one thread, so that numbers do
            not depend on how many there are.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def __call__(
        self,
        jobs: Iterable[Job],
        done: Callable[[Run | Failure], None],
        progress: Callable[[int], None],
    ) -> None:
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        total = 0
        for job in jobs:
            waiting.put(job)
            total += 1
        results: queue.SimpleQueue[Run | Failure | BaseException] = queue.SimpleQueue()
        steps: Queue[int] = mp.get_context("spawn").Queue()
        for _ in range(min(self.workers, total)):
            threading.Thread(target=_serve, args=(waiting, results, steps), daemon=True).start()
        while total:
            try:
                result = results.get(timeout=REPORT_EVERY)
            except queue.Empty:
                result = None
            while not steps.empty():
                progress(steps.get())
            if isinstance(result, BaseException):
                raise result
            if result is not None:
                total -= 1
                done(result)


def _serve(
    waiting: "queue.SimpleQueue[Job]",
    results: "queue.SimpleQueue[Run | Failure | BaseException]",
    steps: "Queue[int]",
) -> None:
    """Feed one worker process until nothing waits; a process that dies takes no other's work with it."""
    try:
        pool = _pool(steps)
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            for attempt in (1, 2):
                try:
                    results.put(pool.submit(_carry_out, job).result())
                    break
                except BrokenProcessPool:
                    pool = _pool(steps)
                    if attempt == 2:
                        results.put(Failure(job.plan, "its worker process died twice (out of memory, or killed)"))
                except Exception as error:  # of one's own class, say: its run fails, and no other
                    results.put(Failure.of(job.plan, error))
                    break
        pool.shutdown()
    except BaseException as error:
        results.put(error)


def _pool(steps: "Queue[int]") -> ProcessPoolExecutor:
    """One fresh worker process."""
    os.environ.update({key: value for key, value in KEEP_MEMORY.items() if key not in os.environ})
    return ProcessPoolExecutor(1, mp.get_context("spawn"), _start, (steps,))


def _start(steps: "Queue[int]") -> None:
    """Runs first in every worker: one thread, and an end together with the parent's."""
    import torch

    global _steps
    _steps = steps
    torch.set_num_threads(1)
    parent = mp.parent_process()
    assert parent is not None

    def die_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=die_with_parent, daemon=True).start()


def _carry_out(job: Job) -> Run:
    unreported, last = 0, time.monotonic()

    def progress(count: int) -> None:
        nonlocal unreported, last
        unreported += count
        if time.monotonic() - last > REPORT_EVERY:
            _steps.put(unreported)
            unreported, last = 0, time.monotonic()

    run = job.carry_out(progress)
    _steps.put(unreported)
    return run
