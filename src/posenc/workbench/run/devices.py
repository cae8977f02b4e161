"""One run over several devices: a process for each device, which train together and leave one run."""

import multiprocessing as mp
import sys
import tempfile
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed as dist
import torch.multiprocessing as tmp

from posenc.errors import PosencError, StudyError
from posenc.workbench.run.job import Report, end_with_parent, unheard
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.run.ranks import Ranks

LOOK_EVERY = 0.25
"""Seconds between two looks at the messages of the processes."""


class SharedJob(Protocol):
    """A job whose run several processes share; each of them calls ``run_rank``."""

    @property
    def plan(self) -> Plan: ...

    def run_rank(self, report: Report, ranks: Ranks) -> Run[Plan] | None: ...


def run_on_devices(job: SharedJob, report: Report) -> Run[Plan]:
    """The run of a job over as many processes as its plan has devices; one that fails ends all."""
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    threads = max(1, torch.get_num_threads() // job.plan.devices)
    with tempfile.TemporaryDirectory(prefix="posenc-meet-") as folder:
        arguments = job, f"file://{Path(folder) / 'meet'}", threads, sender, context.Lock()
        group = tmp.spawn(_rank, arguments, nprocs=job.plan.devices, join=False)
        sender.close()
        runs: list[Run[Plan]] = []
        try:
            while not group.join(timeout=LOOK_EVERY):
                _receive(receiver, report, runs)
        except (tmp.ProcessExitedException, tmp.ProcessRaisedException) as error:
            _receive(receiver, report, runs)  # raises the error that a failing process sent
            raise StudyError(f"one of devices={job.plan.devices} has died: {error}") from error
        finally:
            for process in group.processes:  # those that wait for one that has failed
                process.kill()
                process.join()
        _receive(receiver, report, runs)
    return runs[0]


def _receive(receiver: Connection, report: Report, runs: list[Run[Plan]]) -> None:
    while True:
        try:
            if not receiver.poll():
                return
            message = receiver.recv()
        except (EOFError, OSError):
            return
        if isinstance(message, PosencError):
            raise message
        if isinstance(message, Run):
            runs.append(message)
        elif message is not None:
            report(message)


def load_compiler() -> None:
    """Load torch's compiler before the process joins a group.

    Optimisers load it. Loaded within a group it holds the group for good (torch 2.13), and the group's threads then
    end the process by a signal, now and then, while Python shuts down.
    """
    import_module("torch._dynamo")


def _rank(rank: int, job: SharedJob, meet: str, threads: int, sender: Connection, lock: Lock) -> None:
    """The main function of each process, which ends with the one that started it."""
    end_with_parent()
    torch.set_num_threads(threads)
    device = job.plan.device
    if device.startswith("cuda"):
        device = f"cuda:{rank}"
        torch.cuda.set_device(rank)
    backend = "nccl" if device.startswith("cuda") else "gloo"
    load_compiler()
    dist.init_process_group(backend, init_method=meet, rank=rank, world_size=job.plan.devices)

    def send(message: object) -> None:
        with lock:
            sender.send(message)

    try:
        run = job.run_rank(send if rank == 0 else unheard, Ranks(job.plan.parallel, device))
        send(run)
    except Exception as error:
        ours = isinstance(error, PosencError)
        send(error if ours else StudyError(f"rank {rank}: {type(error).__name__}: {error}"))
        sys.exit(1)
    dist.destroy_process_group()
