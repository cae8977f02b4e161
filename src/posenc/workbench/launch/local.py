"""The local launcher: worker processes with threads and accelerators of their own, replaced when they die."""

import multiprocessing as mp
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.run.job import (
    ONE_CORE,
    Failure,
    Job,
    Progress,
    Report,
    Requirements,
    attempt,
    end_with_parent,
)
from posenc.workbench.run.machine import cores
from posenc.workbench.run.plan import Run

LOOK_EVERY = 0.25
"""Seconds between two looks at the workers' progress."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""glibc settings for the workers: keep freed activations instead of faulting the same pages in every step."""

Worker = tuple["Queue[Progress]", Event, int, str]
"""Arguments of a worker process: where it puts its progress, when it has to end, its threads, its accelerators."""

_progress: "Queue[Progress]"


class Local:
    """Runs jobs on this machine.

    Args:
        workers: processes at a time; by default as many as there are cores, or accelerators, for such runs.
        requirements: of every run: the threads that it computes on, and the accelerators that it sees.

    ``devices`` holds the accelerators of each worker, as CUDA lists them, empty on the CPU.
    """

    def __init__(self, workers: int | None = None, requirements: Requirements = ONE_CORE) -> None:
        self.requirements = requirements
        if workers is not None and workers < 1:
            raise InvalidArgument(f"workers={workers} must be at least 1; leave it out for one per core")
        devices = _shares(requirements.gpus) if requirements.gpus else None
        most = workers or (len(devices) if devices else max(1, cores() // requirements.cpus))
        self.devices = devices[:most] if devices else [""] * most

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
        progress: Queue[Progress] = mp.get_context("spawn").Queue()
        over = mp.get_context("spawn").Event()
        workers = ((progress, over, self.requirements.cpus, device) for device in self.devices[:total])
        threads = [threading.Thread(target=_serve, args=(waiting, results, each), daemon=True) for each in workers]
        for thread in threads:
            thread.start()
        try:
            while total:
                try:
                    result = results.get(timeout=LOOK_EVERY)
                except queue.Empty:
                    result = None
                while not progress.empty():
                    report(progress.get())
                if isinstance(result, BaseException):
                    raise result
                if result is not None:
                    total -= 1
                    done(result)
        except BaseException:
            over.set()
            for thread in threads:
                thread.join()
            raise


def _shares(gpus: float) -> list[str]:
    """The accelerators of each worker, as CUDA lists them, where a run needs ``gpus`` of them."""
    accelerators = _accelerators(in_one_process=gpus > 1)
    count = len(accelerators)
    if gpus > count:
        raise StudyError(f"a run asks for gpus={gpus:g} and {count} are here; ask for fewer, or use --launcher ray")
    if gpus < 1:
        return int(1 / gpus) * accelerators
    each = int(gpus)
    return [",".join(accelerators[first : first + each]) for first in range(0, count - each + 1, each)]


def _accelerators(in_one_process: bool) -> list[str]:
    """Those that this process may use, by the numbers or ids under which CUDA finds them in another, too.

    Of several MIG instances CUDA shows a process the first alone; every process may have its own.
    """
    import torch

    count = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    names = [name.strip() for name in given.split(",")]
    instances = count and names[0].startswith("MIG-") and not in_one_process
    return names if instances else names[:count]


def _serve(
    waiting: "queue.SimpleQueue[Job]",
    results: "queue.SimpleQueue[Run | Failure | BaseException]",
    worker: Worker,
) -> None:
    """Feed one worker process until nothing waits; a process that dies takes no other's work with it."""
    if sys.platform != "win32":  # workers end with this process, and have nothing to say when Ctrl-C is typed
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        pool = _pool(worker)
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            for trial in (1, 2):
                try:
                    results.put(result := pool.submit(_attempt, job).result())
                    if isinstance(result, Failure) and worker[3]:  # an accelerator's error stays in its process
                        pool.shutdown()
                        pool = _pool(worker)
                    break
                except BrokenProcessPool:
                    if worker[1].is_set():
                        return pool.shutdown()
                    pool = _pool(worker)
                    if trial == 2:
                        results.put(Failure(job.plan, "its worker process died twice (out of memory, or killed)"))
                except Exception as error:  # a job that cannot be sent
                    results.put(Failure.of(job.plan, error))
                    break
        pool.shutdown()
    except BaseException as error:
        results.put(error)


def _pool(worker: Worker) -> ProcessPoolExecutor:
    """One fresh worker process."""
    os.environ.update({key: value for key, value in KEEP_MEMORY.items() if key not in os.environ})
    return ProcessPoolExecutor(1, mp.get_context("spawn"), _start, worker)


def _start(progress: "Queue[Progress]", over: Event, threads: int, device: str) -> None:
    """Runs first in every worker: sets its accelerators and threads; it ends with ``over`` or with its parent."""
    global _progress
    _progress = progress
    threading.Thread(target=_exit_after, args=(over,), daemon=True).start()
    if device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    import torch

    torch.set_num_threads(threads)
    end_with_parent()


def _exit_after(over: Event) -> None:
    over.wait()
    os._exit(1)


def _attempt(job: Job) -> Run | Failure:
    return attempt(job, _progress.put)
