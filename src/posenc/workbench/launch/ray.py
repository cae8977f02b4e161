"""The Ray launcher: the same plans on an existing Ray cluster, one core each."""

from collections.abc import Callable, Iterable

from posenc.errors import MissingExtra, StudyError
from posenc.workbench.experiments.job import Failure, Job
from posenc.workbench.experiments.plan import Run


class Ray:
    """Carries out jobs on the cluster that ``ray start`` or ``RAY_ADDRESS`` names.

    Workers must see the study's folder (and text) under the same path, and have this posenc installed. Steps are
    counted when a run ends. A worker that dies is retried once, by Ray.
    """

    def __init__(self, address: str = "auto") -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingExtra("ray", "ray") from error
        try:
            ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
        except ConnectionError as error:
            raise StudyError(
                f"no Ray cluster at {address!r}; start one with: ray start --head, or use --launcher local"
            ) from error

    def __call__(
        self,
        jobs: Iterable[Job],
        done: Callable[[Run | Failure], None],
        progress: Callable[[int], None],
    ) -> None:
        import ray

        remote = ray.remote(num_cpus=1, max_retries=1)(_carry_out)
        pending = {remote.remote(job): job for job in jobs}
        while pending:
            (ready, *_), _ = ray.wait(list(pending))
            job = pending.pop(ready)
            try:
                done(ray.get(ready))
            except ray.exceptions.RayTaskError as error:
                done(Failure.of(job.plan, error.cause))
            except ray.exceptions.RayError as error:
                done(Failure(job.plan, str(error).splitlines()[0]))
            progress(job.plan.steps)


def _carry_out(job: Job) -> Run:
    import torch

    torch.set_num_threads(1)
    return job.carry_out()
