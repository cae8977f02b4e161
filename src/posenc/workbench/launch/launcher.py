"""Chooses a launcher by name, and writes the results of its jobs to a ledger."""

from collections.abc import Callable, Sequence

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.workbench.run.job import (
    ONE_CORE,
    Failure,
    Job,
    Launcher,
    Progress,
    Report,
    Requirements,
    in_process,
)
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Run


def choose(name: str, workers: int | None = None, requirements: Requirements = ONE_CORE) -> Launcher:
    """Return the launcher with this name. Only the local launcher accepts ``workers``; Ray runs as many jobs at a
    time as fit on its cluster."""
    one_of("launcher", name, ("local", "ray", "in-process"))
    if workers is not None and name != "local":
        raise InvalidArgument(f"workers={workers} applies only to --launcher local; omit it with --launcher {name}")
    if name == "local":
        from posenc.workbench.launch.local import Local

        return Local(workers, requirements)
    if name == "ray":
        from posenc.workbench.launch.ray import Ray

        return Ray(requirements)
    return in_process


def carry_out(
    jobs: Sequence[Job],
    launcher: Launcher,
    ledger: Ledger,
    report: Report,
    finished: Callable[[Run | Failure], None] = lambda result: None,
) -> list[Failure]:
    """Launch jobs, write their losses and runs to the ledger as they arrive, and return the failures."""
    failures = list[Failure]()

    def reported(progress: Progress) -> None:
        ledger.note(progress)
        report(progress)

    def done(result: Run | Failure) -> None:
        if isinstance(result, Failure):
            failures.append(result)
        else:
            ledger.add(result)
        finished(result)

    launcher(jobs, done, reported)
    return failures
