"""The local launcher: worker processes of one thread each, replaced when they die."""

import multiprocessing as mp
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.queues import Queue

from posenc.errors import InvalidArgument
from posenc.workbench.experiments.job import Failure, Job, Progress, Report
from posenc.workbench.experiments.plan import Run

LOOK_EVERY = 0.25
"""Seconds between two looks at what workers have said."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""glibc settings for the workers: keep freed activations instead of faulting the same pages in every step."""

_said: "Queue[Progress]"


class Local:
    """Carries out jobs on this machine.

    Args:
        workers: processes at a time, by default one per core; each computes on one thread, so that numbers do
            not depend on how many there are.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InvalidArgument(f"workers={workers} must be at least 1; leave it out for one per core")
        self.workers = workers or os.cpu_count() or 1

    def __call__(
        self,
        jobs: Sequence[Job],
        done: Callable[[Run | Failure], None],
        report: Report,
    ) -> None:
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        total = len(jobs)
        for job in jobs:
            waiting.put(job)
        results: queue.SimpleQueue[Run | Failure | BaseException] = queue.SimpleQueue()
        said: Queue[Progress] = mp.get_context("spawn").Queue()
        for _ in range(min(self.workers, total)):
            threading.Thread(target=_serve, args=(waiting, results, said), daemon=True).start()
        while total:
            try:
                result = results.get(timeout=LOOK_EVERY)
            except queue.Empty:
                result = None
            while not said.empty():
                report(said.get())
            if isinstance(result, BaseException):
                raise result
            if result is not None:
                total -= 1
                done(result)


def _serve(
    waiting: "queue.SimpleQueue[Job]",
    results: "queue.SimpleQueue[Run | Failure | BaseException]",
    said: "Queue[Progress]",
) -> None:
    """Feed one worker process until nothing waits; a process that dies takes no other's work with it."""
    try:
        pool = _pool(said)
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
                    pool = _pool(said)
                    if attempt == 2:
                        results.put(Failure(job.plan, "its worker process died twice (out of memory, or killed)"))
                except Exception as error:  # of one's own class, say: its run fails, and no other
                    results.put(Failure.of(job.plan, error))
                    break
        pool.shutdown()
    except BaseException as error:
        results.put(error)


def _pool(said: "Queue[Progress]") -> ProcessPoolExecutor:
    """One fresh worker process."""
    os.environ.update({key: value for key, value in KEEP_MEMORY.items() if key not in os.environ})
    return ProcessPoolExecutor(1, mp.get_context("spawn"), _start, (said,))


def _start(said: "Queue[Progress]") -> None:
    """Runs first in every worker: one thread, and an end together with the parent's."""
    import torch

    global _said
    _said = said
    torch.set_num_threads(1)
    parent = mp.parent_process()
    assert parent is not None

    def die_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=die_with_parent, daemon=True).start()


def _carry_out(job: Job) -> Run:
    return job.carry_out(_said.put)
