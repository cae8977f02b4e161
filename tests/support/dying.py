"""A run that saves its state and reports its progress after every step, in a process that tests kill."""

from multiprocessing.connection import Connection
from pathlib import Path

import torch

from posenc.workbench.run import trainer
from posenc.workbench.run.job import Progress
from posenc.workbench.run.training import TrainingJob
from support.studies import plan_of

PLAN = plan_of("layers(rotary + alibi)", steps=120, train_length=16, lengths=(16, 32), accumulate=2, warm_up=0.2)


def carry_out(folder: Path, told: Connection) -> None:
    """Send the step from which the run resumes, then every finished step, and finally all losses and the run."""
    torch.set_num_threads(1)
    trainer.STATE_EVERY = trainer.REPORT_EVERY = 0.0

    losses: list[float] = []

    def report(progress: Progress) -> None:
        losses[progress.first :] = progress.curve.losses
        told.send(len(losses))

    run = TrainingJob(plan=PLAN, folder=folder).run(report)
    told.send((losses, run))
