"""The local launcher, which runs each job in its own process, with its own threads and accelerators."""

import multiprocessing as mp
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.run.job import (
    ONE_CORE,
    Failure,
    Job,
    Progress,
    Report,
    Requirements,
    attempt,
)
from posenc.workbench.run.machine import cores
from posenc.workbench.run.plan import Run

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""The glibc settings with which a process keeps freed memory, which avoids page faults in every step."""


class Local:
    """Runs jobs on this machine, and restarts a job once if its process dies.

    Args:
        workers: the number of parallel processes; by default the number that the cores or accelerators allow.
        requirements: the number of threads and accelerators for each run.

    ``devices`` has one string per process: the process's ``CUDA_VISIBLE_DEVICES``, or an empty string for the CPU.
    """

    def __init__(self, workers: int | None = None, requirements: Requirements = ONE_CORE) -> None:
        self.requirements = requirements
        if workers is not None and workers < 1:
            raise InvalidArgument(
                f"workers={workers} must be at least 1; omit workers to run as many processes as the cores or "
                "accelerators allow"
            )
        on_cpu = [""] * (workers or max(1, cores() // requirements.cpus))
        self.devices = _shares(requirements.gpus)[:workers] if requirements.gpus else on_cpu

    def __call__(
        self,
        jobs: Sequence[Job],
        done: Callable[[Run | Failure], None],
        report: Report,
    ) -> None:
        waiting, free = deque((job, 1) for job in jobs), list(self.devices)
        running: list[_Running] = []
        try:
            while waiting or running:
                while waiting and free:
                    job, trial = waiting.popleft()
                    try:
                        running.append(_Running(job, trial, free[0], self.requirements.cpus))
                        free.pop(0)
                    except Exception as error:  # the job cannot be pickled
                        done(Failure.of(job, error))
                ready = wait([run.messages for run in running])
                for run in [run for run in running if run.messages in ready]:
                    message = run.take()
                    if isinstance(message, Progress):
                        report(message)
                        continue
                    running.remove(run)
                    free.append(run.device)
                    if message is not None:
                        done(message)
                    elif run.trial == 1:
                        waiting.appendleft((run.job, 2))
                    else:
                        done(
                            Failure(
                                run.job.plan,
                                "its worker process was killed twice; memory may have run out"
                                if (run.process.exitcode or 0) < 0
                                else "its worker process ended twice without a result; a script that starts runs "
                                'must do so under `if __name__ == "__main__":`',
                            )
                        )
        finally:
            for run in running:
                run.process.kill()
            for run in running:
                run.process.join()


class _Running:
    """A job that is running in its own process."""

    def __init__(self, job: Job, trial: int, device: str, threads: int) -> None:
        os.environ.update({key: value for key, value in KEEP_MEMORY.items() if key not in os.environ})
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["posenc.workbench.run.training"])
        self.job, self.trial, self.device = job, trial, device
        self.messages, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_work,
            args=(job, device, threads, theirs),
            daemon=True,  # terminated at exit, even after a second Ctrl-C
        )
        with theirs:
            self.process.start()

    def take(self) -> Progress | Run | Failure | None:
        """Return the run's next message: progress or a result, or None if the process died without a result."""
        message = None
        with suppress(EOFError, OSError):
            message = self.messages.recv()
        if not isinstance(message, Progress):
            self.process.join()
            self.messages.close()
        return message


def _shares(gpus: float) -> list[str]:
    """Return the value of ``CUDA_VISIBLE_DEVICES`` for each worker.

    ``gpus`` is the number of accelerators that each run needs, or a share of one accelerator if it is below 1.
    """
    accelerators = _accelerators(in_one_process=gpus > 1)
    count = len(accelerators)
    if gpus > count:
        raise StudyError(
            f"a run needs gpus={gpus:g}, but the number of GPUs on this machine is {count}; lower gpus, or use "
            "--launcher ray"
        )
    if gpus < 1:
        return int(1 / gpus) * accelerators
    each = int(gpus)
    return [",".join(accelerators[first : first + each]) for first in range(0, count - each + 1, each)]


def _accelerators(in_one_process: bool) -> list[str]:
    """Return the accelerators that this process may use, as indices or ids that are valid in other processes too.

    CUDA shows only the first of several MIG instances to a process, but each process may use a different instance.
    """
    import torch

    count = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    names = [name.strip() for name in given.split(",")]
    instances = count and names[0].startswith("MIG-") and not in_one_process
    return names if instances else names[:count]


def _work(job: Job, device: str, threads: int, messages: Connection) -> None:
    """Run a job in this worker process, which ignores Ctrl-C and ends when its parent process ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    _end_with_parent()
    if device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    import torch

    torch.set_num_threads(threads)
    messages.send(attempt(job, messages.send))


def _end_with_parent() -> None:
    """End this process as soon as its parent process ends for any reason."""
    parent = mp.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
