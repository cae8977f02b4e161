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
from posenc.workbench.launch.requirements import Needs
from posenc.workbench.run.job import Failure, Job, Progress, Report, attempt, end_with_parent
from posenc.workbench.run.plan import Run

LOOK_EVERY = 0.25
"""Seconds between two looks at what workers have said."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""glibc settings for the workers: keep freed activations instead of faulting the same pages in every step."""

Setting = tuple["Queue[Progress]", Event, int, str]
"""Of a worker: where it says what it does, when it has to end, its threads, its accelerators."""

_said: "Queue[Progress]"


class Local:
    """Carries out jobs on this machine.

    Args:
        workers: processes at a time; by default as many as there are cores, or accelerators, for what each needs.
        needs: of every run: the threads that it computes on, and the accelerators that it sees.
    """

    def __init__(self, workers: int | None = None, needs: Needs | None = None) -> None:
        self.needs = needs or Needs()
        if workers is not None and workers < 1:
            raise InvalidArgument(f"workers={workers} must be at least 1; leave it out for one per core")
        places = _shares(self.needs.gpus, _accelerators()) if self.needs.gpus else None
        most = workers or (len(places) if places else max(1, (os.cpu_count() or 1) // self.needs.cpus))
        self.places = places[:most] if places else [""] * most

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
        over = mp.get_context("spawn").Event()
        settings = ((said, over, self.needs.cpus, place) for place in self.places[:total])
        serving = [threading.Thread(target=_serve, args=(waiting, results, each), daemon=True) for each in settings]
        for thread in serving:
            thread.start()
        try:
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
        except BaseException:
            over.set()
            for thread in serving:
                thread.join()
            raise


def _shares(gpus: float, here: Sequence[str]) -> list[str]:
    """The accelerators of each worker, as CUDA lists them, where a run needs ``gpus`` of those that are here."""
    if gpus > len(here):
        raise StudyError(
            f"a run asks for gpus={gpus:g} and {len(here)} are here; ask for fewer, or use --launcher ray"
        )
    if gpus < 1:
        return int(1 / gpus) * [*here]
    each = int(gpus)
    return [",".join(here[first : first + each]) for first in range(0, len(here) - each + 1, each)]


def _accelerators() -> list[str]:
    """Those that this process may use, by the numbers or ids under which CUDA finds them in another, too."""
    import torch

    count = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return [name.strip() for name in given.split(",")[:count]]


def _serve(
    waiting: "queue.SimpleQueue[Job]",
    results: "queue.SimpleQueue[Run | Failure | BaseException]",
    setting: Setting,
) -> None:
    """Feed one worker process until nothing waits; a process that dies takes no other's work with it."""
    if sys.platform != "win32":  # workers end with this process, and have nothing to say when Ctrl-C is typed
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        pool = _pool(setting)
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
                    if setting[1].is_set():
                        return pool.shutdown()
                    pool = _pool(setting)
                    if attempt == 2:
                        results.put(Failure(job.plan, "its worker process died twice (out of memory, or killed)"))
                except Exception as error:  # a job that cannot be sent
                    results.put(Failure.of(job.plan, error))
                    break
        pool.shutdown()
    except BaseException as error:
        results.put(error)


def _pool(setting: Setting) -> ProcessPoolExecutor:
    """One fresh worker process."""
    os.environ.update({key: value for key, value in KEEP_MEMORY.items() if key not in os.environ})
    return ProcessPoolExecutor(1, mp.get_context("spawn"), _start, setting)


def _start(said: "Queue[Progress]", over: Event, threads: int, place: str) -> None:
    """Runs first in every worker: its accelerators and threads, and an end when it is told, or with the parent."""
    global _said
    _said = said
    threading.Thread(target=_until, args=(over,), daemon=True).start()
    if place:
        os.environ["CUDA_VISIBLE_DEVICES"] = place
    import torch

    torch.set_num_threads(threads)
    end_with_parent()


def _until(over: Event) -> None:
    over.wait()
    os._exit(1)


def _carry_out(job: Job) -> Run | Failure:
    return attempt(job, _said.put)
