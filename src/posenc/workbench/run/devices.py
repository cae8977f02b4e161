"""Carries out one run on several devices: a process each, which meet, train together and leave one run."""

import multiprocessing as mp
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.multiprocessing as tmp

from posenc.errors import PosencError, StudyError
from posenc.workbench.run.job import Report, end_with_parent
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.run.ranks import Ranks

LOOK_EVERY = 0.25
"""Seconds between two looks at what the processes have said."""


class Shared(Protocol):
    """A job whose run several processes share: ``together`` is what each of them does."""

    @property
    def plan(self) -> Plan: ...

    def together(self, report: Report, ranks: Ranks) -> Run[Plan] | None: ...


def over(job: Shared, report: Report) -> Run[Plan]:
    """The run of a job over as many processes as its plan has devices; one that fails ends all."""
    listening, speaking = mp.get_context("spawn").Pipe(duplex=False)
    threads = max(1, torch.get_num_threads() // job.plan.devices)
    with tempfile.TemporaryDirectory(prefix="posenc-meet-") as folder:
        given = job, f"file://{Path(folder) / 'meet'}", threads, speaking
        group = tmp.spawn(_rank, given, nprocs=job.plan.devices, join=False)
        speaking.close()
        found: list[Run[Plan]] = []
        try:
            while not group.join(timeout=LOOK_EVERY):
                _hear(listening, report, found)
        except (tmp.ProcessExitedException, tmp.ProcessRaisedException) as error:
            _hear(listening, report, found)  # what a failing process said of itself
            raise StudyError(f"one of devices={job.plan.devices} has died: {error}") from error
        _hear(listening, report, found)
    return found[0]


def _hear(listening: Connection, report: Report, found: list[Run[Plan]]) -> None:
    while True:
        try:
            if not listening.poll():
                return
            said = listening.recv()
        except (EOFError, OSError):
            return
        if isinstance(said, PosencError):
            raise said
        if isinstance(said, Run):
            found.append(said)
        elif said is not None:
            report(said)


def load_compiler() -> None:
    """Load torch's compiler before a process group is joined.

    Loaded within one, as optimisers do, it holds the group for good (torch 2.13), and the group's threads end the
    process by a signal, now and then, while Python takes itself down.
    """
    import_module("torch._dynamo")


def _rank(rank: int, job: Shared, meet: str, threads: int, speaking: Connection) -> None:
    """What every process does; it ends with the one that started it."""
    end_with_parent()
    torch.set_num_threads(threads)
    device = job.plan.device
    if device.startswith("cuda"):
        device = f"cuda:{rank}"
        torch.cuda.set_device(rank)
    backend = "nccl" if device.startswith("cuda") else "gloo"
    load_compiler()
    dist.init_process_group(backend, init_method=meet, rank=rank, world_size=job.plan.devices)
    say: Callable[[Any], None] = speaking.send if rank == 0 else lambda said: None
    try:
        say(job.together(say, Ranks(job.plan.parallel, device)))
    except Exception as error:
        ours = isinstance(error, PosencError)
        speaking.send(error if ours else StudyError(f"rank {rank}: {type(error).__name__}: {error}"))
        sys.exit(1)
    dist.destroy_process_group()
