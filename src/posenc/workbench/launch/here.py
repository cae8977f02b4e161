"""The launcher without processes: one job after the other, where it is called."""

from collections.abc import Callable, Sequence

from posenc.workbench.experiments.job import Failure, Job, Report, attempt
from posenc.workbench.experiments.plan import Run


def here(jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
    """Carry out the jobs in this process, on all its threads: what large models want, which fit once."""
    for job in jobs:
        done(attempt(job, report))
