"""The launcher under ``torchrun``: its processes, of one machine or several, share every run out among them.

All of them type the same command. The first has the ledger, and hands each job to the others as it comes to it.
"""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.run.devices import SharedJob, load_compiler
from posenc.workbench.run.job import Failure, Job, Report, unheard
from posenc.workbench.run.plan import Run
from posenc.workbench.run.ranks import Ranks

PATIENCE = timedelta(days=1)
"""For which processes wait on the first, while it tests a model alone."""


class Torchrun:
    """Runs jobs whose ``devices`` are as many as the processes, one after the other.

    What one process raises ends all of them, since the others wait for it; the same command goes on from the last
    state, which processes of several machines keep in a folder that all of them see.

    Raises:
        StudyError: torchrun has not started this process.
    """

    def __init__(self) -> None:
        if "LOCAL_RANK" not in os.environ:
            raise StudyError(
                "--launcher torchrun is for processes that torchrun started: torchrun --nproc-per-node 2 -m …"
            )
        self.rank = int(os.environ["LOCAL_RANK"])
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(self.rank)
        load_compiler()
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)

    @property
    def first(self) -> bool:
        """Whether this process has the ledger; the others ``follow``."""
        return dist.get_rank() == 0

    def __call__(self, jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
        for job in jobs:
            run = self._share(job, report)
            assert isinstance(run, Run)
            done(run)
        self._share(None, report)
        dist.destroy_process_group()

    def follow(self) -> None:
        """In every process but the first: do what it hands out, to its end."""
        while self._share(None, unheard):
            pass
        dist.destroy_process_group()

    def _share(self, job: Job | None, report: Report) -> Run | bool:
        """Take part in the first process's job: its run there, True in the others, False at the end."""
        objects: list[Any] = [job]
        dist.broadcast_object_list(objects)
        shared: SharedJob | None = objects[0]
        if shared is None:
            return False
        plan = shared.plan
        if plan.devices != dist.get_world_size():
            raise InvalidArgument(
                f"devices={plan.devices} of {plan.name} must be the {dist.get_world_size()} processes of torchrun"
            )
        device = f"cuda:{self.rank}" if plan.device.startswith("cuda") else plan.device
        return shared.run_rank(report, Ranks(plan.parallel, device)) or True
