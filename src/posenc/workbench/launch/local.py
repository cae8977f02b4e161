"""The local launcher: worker processes that write the store themselves, replaced when they die."""

import multiprocessing as mp
import os
import queue
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.launch.desk import REPORT_EVERY, Beside
from posenc.workbench.launch.job import Failure, Job, Listener, Needs, carry_out
from posenc.workbench.launch.store import Store

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""glibc settings for the workers: keep freed activations instead of faulting the same pages in every step."""

_reports: Connection


class Local:
    """Carries out jobs on this machine.

    Args:
        workers: processes at a time; by default as many as the cores, or the accelerators that jobs ask for, allow.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InvalidArgument(f"workers={workers} must be at least 1; leave it out for one a core")
        self.workers = workers

    def __call__(self, jobs: Iterable[Job], store: Store, listener: Listener) -> None:
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        needs = []
        for job in jobs:
            waiting.put(job)
            needs.append(job.needs)
        events: queue.SimpleQueue[_Told | _Ended | BaseException] = queue.SimpleQueue()
        for devices in self._slots(needs):
            threading.Thread(target=_Worker(waiting, events, store, devices).serve, daemon=True).start()
        left = len(needs)
        while left:
            event = events.get()
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, _Told):
                listener.progress(event.job, event.steps, event.losses)
            else:
                listener.done(event.job, event.found)
                left -= 1

    def _slots(self, needs: list[Needs]) -> list[str]:
        """The accelerators that each worker sees, as CUDA lists them; as many as there are workers at a time."""
        if not needs:
            return []
        cpus, gpus = max(n.cpus for n in needs), max(n.gpus for n in needs)
        most = self.workers or max(1, (os.cpu_count() or 1) // cpus)
        return (slots(gpus, _accelerators()) if gpus else [""] * most)[: min(most, len(needs))]


def slots(gpus: float, here: int) -> list[str]:
    """Accelerators of each worker where a job needs ``gpus`` of the ``here`` there are; a fraction shares one."""
    if gpus > here:
        raise StudyError(f"a run asks for gpus={gpus:g} and {here} are here; ask for fewer, or use --launcher ray")
    if gpus < 1:
        return [str(device) for _ in range(int(1 / gpus)) for device in range(here)]
    each = int(gpus)
    return [",".join(str(first + i) for i in range(each)) for first in range(0, here - each + 1, each)]


def _accelerators() -> int:
    import torch

    return torch.cuda.device_count()


@dataclass(frozen=True)
class _Told:
    """A running job has said this."""

    job: Job
    steps: int
    losses: tuple[float, ...]


@dataclass(frozen=True)
class _Ended:
    """A job has ended."""

    job: Job
    found: Any


@dataclass
class _Worker:
    """One process at a time, and the thread of the driver that feeds it and hears it."""

    waiting: "queue.SimpleQueue[Job]"
    events: "queue.SimpleQueue[_Told | _Ended | BaseException]"
    store: Store
    devices: str

    def serve(self) -> None:
        """Do jobs until none waits; a process that dies takes no other's work with it."""
        try:
            self._start()
            while True:
                try:
                    job = self.waiting.get_nowait()
                except queue.Empty:
                    break
                self.events.put(_Ended(job, self._found(job)))
            self.pool.shutdown()
        except BaseException as error:
            self.events.put(error)

    def _found(self, job: Job) -> Any:
        for _ in range(2):
            try:
                return self._heard(job, self.pool.submit(_carry_out, job, self.store))
            except BrokenProcessPool:
                self._start()
            except Exception as error:  # the job, or what it found, cannot be sent between processes
                return Failure.of(job.name, error)
        return Failure(job.name, "its worker process died twice (out of memory, or killed)")

    def _heard(self, job: Job, future: "Future[Any]") -> Any:
        """What the job found, when all that it reported before has been told."""
        with suppress(EOFError, OSError):  # a process that died in the middle of a word
            while not future.done() or self.reports.poll():
                if self.reports.poll(REPORT_EVERY):
                    self.events.put(_Told(job, *self.reports.recv()))
        return future.result()

    def _start(self) -> None:
        """One fresh worker process; it alone holds the end of the pipe that reports are written to."""
        os.environ.update({key: value for key, value in KEEP_MEMORY.items() if key not in os.environ})
        self.reports, writer = mp.Pipe(duplex=False)
        self.pool = ProcessPoolExecutor(1, mp.get_context("spawn"), _start, (writer, self.devices))
        self.pool.submit(os.getpid).result()
        writer.close()


def _start(reports: Connection, devices: str) -> None:
    """Runs first in every worker: its accelerators, and an end together with the parent's."""
    global _reports
    _reports = reports
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
    parent = mp.parent_process()
    assert parent is not None

    def die_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=die_with_parent, daemon=True).start()


def _carry_out(job: Job, store: Store) -> Any:
    desk = Beside(store, lambda *said: _reports.send(said))
    found = carry_out(job, desk)
    desk.flush()
    return found
