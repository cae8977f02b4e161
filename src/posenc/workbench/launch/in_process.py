"""The launcher without processes: one job after the other, in the calling one."""

from collections.abc import Callable, Sequence

from posenc.workbench.run.job import Failure, Job, Progress, Report, attempt
from posenc.workbench.run.plan import Run


def in_process(jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
    """Run the jobs in this process, on all its threads: for large models, of which one fits."""
    broken: list[Exception] = []

    def guarded(progress: Progress) -> None:
        try:
            report(progress)
        except Exception as error:  # an error of the listener, and no failure of the job
            broken.append(error)
            raise

    for job in jobs:
        result = attempt(job, guarded)
        if broken:
            raise broken[0]
        done(result)
