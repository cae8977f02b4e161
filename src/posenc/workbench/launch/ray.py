"""The Ray launcher, which sends runs to an existing cluster.

Ray's ``runtime_env`` ships posenc and custom modules, and its object store transfers texts and weights. Ray
restarts a run if its process or machine dies. On a machine that has the study's folder, a run saves its state
there and resumes from it. On other machines, a run uses a temporary folder and restarts from step 0.
"""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import posenc
from posenc.errors import MissingExtra, StudyError
from posenc.workbench.files import write_atomically
from posenc.workbench.run.job import ONE_CORE, Failure, Job, Report, Requirements, attempt
from posenc.workbench.run.plan import Run
from posenc.workbench.tasks.text import Source, Text

LOOK_EVERY = 1.0
"""The number of seconds between two checks of the runs' progress."""

QUIET = "RAY_DEDUP_LOGS_SKIP_REGEX", "Raylet is terminated"
"""An environment variable and its value, which are set before Ray is imported. Ray drops log lines that match this
value, which it would otherwise print when a machine dies."""


class Ray:
    """Runs jobs in the Ray session of this process, if one is open, or else on an existing cluster.

    The cluster is the one at ``RAY_ADDRESS`` or the one that ``ray start`` has started on this machine.

    A run waits until a machine has enough free cores and GPUs, and sees only the GPUs that Ray assigns to it. Every
    machine needs the same Python and packages as the driver, except posenc, which Ray ships.

    Raises:
        MissingExtra: Ray is not installed.
        StudyError: raised when runs start, if there is no cluster or no machine has enough cores and GPUs.
    """

    def __init__(self, requirements: Requirements = ONE_CORE) -> None:
        self.requirements = requirements
        os.environ.setdefault(*QUIET)
        if find_spec("ray") is None:
            raise MissingExtra("ray", "ray")

    def __call__(self, jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
        import ray

        with self._session([path for job in jobs for path in job.modules]):
            self._check_room()
            cpus, progress = self.requirements.cpus, _queue()
            task = ray.remote(num_cpus=cpus, num_gpus=self.requirements.gpus)(_run)
            texts = {
                source: _Stored(stored=ray.put(source.load()))
                for source in {job.source for job in jobs if job.source}
            }
            waiting, running = deque(jobs), dict[Any, Job]()
            while waiting or running:
                while waiting and len(running) < max(1, self._room()):  # not all at once: a job may contain a model
                    job = waiting.popleft()
                    sent = replace(job, source=texts[job.source]) if job.source else job
                    running[task.remote(sent, cpus, progress)] = job
                ended, _ = ray.wait(list(running), timeout=LOOK_EVERY)
                for each in progress.get_nowait_batch(progress.qsize()):
                    report(each)
                for reply in ended:
                    done(_received(running.pop(reply), reply))

    def _session(self, modules: Sequence[Path]) -> AbstractContextManager[object]:
        """Connect to the cluster, and let its workers import this copy of posenc and these modules."""
        import ray

        if ray.is_initialized():
            return nullcontext()
        code = {"py_modules": [*posenc.__path__, *map(str, dict.fromkeys(modules))]}
        try:
            return ray.init("auto", runtime_env=code, log_to_driver=False, logging_level="WARNING")
        except ConnectionError as error:
            raise StudyError(
                "no Ray cluster was found; start one with: ray start --head, or use --launcher local"
            ) from error

    def _room(self) -> int:
        """Return how many runs fit on the live machines at the same time."""
        cpus, gpus = self.requirements.cpus, self.requirements.gpus
        return sum(
            int(min(has.get("CPU", 0) // cpus, has.get("GPU", 0) / gpus if gpus else cpus * 1e9))
            for has in _resources()
        )

    def _check_room(self) -> None:
        if not self._room():
            cpus, gpus = (max(has.get(name, 0) for has in _resources()) for name in ("CPU", "GPU"))
            raise StudyError(
                f"a run needs cpus={self.requirements.cpus} and gpus={self.requirements.gpus:g}, but no machine in "
                f"the cluster has both (at most cpus={cpus:g} and gpus={gpus:g}); lower cpus or gpus, or add "
                "a larger machine to the cluster"
            )


@dataclass(frozen=True, kw_only=True)
class _Stored(Source):
    """The source of a text that is stored in Ray's object store."""

    stored: Any = None

    def load(self, say: Callable[[str], object] = str) -> Text:
        import ray

        return ray.get(self.stored)


def _run(job: Job, cpus: int, progress: Any) -> tuple[Run | Failure, dict[str, bytes]]:
    """Run a job on a worker, and return its result and the contents of its files by name."""
    import torch

    torch.set_num_threads(cpus)
    with tempfile.TemporaryDirectory(prefix="posenc-run-") as temporary:
        folder = job.folder if job.folder.parent.is_dir() else Path(temporary) / job.folder.name
        result = attempt(replace(job, folder=folder), progress.put)
        return result, {file.name: file.read_bytes() for file in folder.glob(f"{job.plan.id}*")}


def _received(job: Job, reply: Any) -> Run | Failure:
    """Write a finished run's files to this machine's disk, and return the run's result."""
    import ray

    try:
        result, files = ray.get(reply)
    except ray.exceptions.RayTaskError as error:
        return Failure.of(job, error.cause)
    except ray.exceptions.RayError as error:  # Ray has restarted the task as often as it may
        return Failure(job.plan, str(error).strip().splitlines()[-1])
    for name, data in files.items():
        with write_atomically(job.folder / name) as partial:
            partial.write_bytes(data)
    return result


def _queue() -> Any:
    """Create a queue for progress reports. The queue runs on this machine until the command ends."""
    import ray
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})


def _resources() -> list[dict[str, float]]:
    """Return the resources of each live machine in the cluster."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
