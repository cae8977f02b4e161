"""The Ray launcher: runs go to an existing cluster, and their files come back through its object store.

No folder is shared. A run is a task that yields its progress and its changed files; the driver writes them down. A
run whose machine dies starts elsewhere from its last files.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posenc.errors import MissingExtra, StudyError
from posenc.workbench.launch.code_shipping import Item, pack
from posenc.workbench.launch.determinism import installed, refuse_others
from posenc.workbench.launch.remote import Changed, listed, run_remotely
from posenc.workbench.run.job import ONE_CORE, Failure, Job, Report, Requirements
from posenc.workbench.run.plan import Run

LOOK_EVERY = 1.0
"""Seconds after which the driver looks for machines that have joined."""

QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": "Raylet is terminated"}
"""Set before Ray is imported: the last words of a machine that dies are a page of its counters."""


class Ray:
    """Runs jobs on the cluster that ``ray start`` or ``RAY_ADDRESS`` names.

    A run waits until a machine has the cores and GPUs that it asks for, and sees the GPUs that Ray gave it. Every
    machine needs the driver's versions of posenc, torch and Python.

    Raises:
        MissingExtra: Ray is not installed.
        StudyError: no cluster is there, its machines have other versions, or none has what a run asks for.
    """

    def __init__(self, requirements: Requirements = ONE_CORE, address: str = "auto") -> None:
        self.requirements = requirements
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingExtra("ray", "ray") from error
        try:
            ray.init(address=address, log_to_driver=False, logging_level="WARNING", ignore_reinit_error=True)
        except ConnectionError as error:
            raise StudyError(
                f"no Ray cluster at {address!r}; start one with: ray start --head, or use --launcher local"
            ) from error
        _check_versions()
        _check_room(self.requirements)

    def __call__(self, jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
        import ray

        waiting, shared = list(jobs), _Shared()
        running: dict[Any, _Running] = {}
        while waiting or running:
            while waiting and len(running) < _room(self.requirements):
                task = _Running(waiting.pop(0), self.requirements, shared)
                running[task.stream] = task
            ready, _ = ray.wait(list(running), timeout=LOOK_EVERY) if running else ([], [])
            for stream in ready:
                task = running.pop(stream)
                result = task.take(report)
                if result is None:
                    running[task.stream] = task
                else:
                    done(result)


class _Running:
    """A run on the cluster, as the driver sees it; it starts when it is made."""

    def __init__(self, job: Job, requirements: Requirements, shared: "_Shared") -> None:
        self.job, self.requirements, self.shared = job, requirements, shared
        self.deaths = 0
        self._start()

    def take(self, report: Report) -> Run | Failure | None:
        """Take the next message of the run; its result, once it has ended."""
        import ray

        try:
            message = ray.get(next(self.stream))
        except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
            return self._again()
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
            self.deaths += 1
            return self._again()
        except ray.exceptions.RayTaskError as error:
            return Failure.of(self.job.plan, error.cause)
        except ray.exceptions.RayError as error:
            return Failure(self.job.plan, _last_line(error))
        if isinstance(message, Run | Failure):
            return message
        if isinstance(message, Changed):
            message.write(self.job.folder)
        else:
            report(message)
        return None

    def _again(self) -> Failure | None:
        """Start once more; one whose process died twice, on machines that live, is given up."""
        if self.deaths == 2:
            return Failure(self.job.plan, "its worker process died twice (out of memory, or killed)")
        self._start()
        return None

    def _start(self) -> None:
        import ray

        job, cpus, gpus = self.job, self.requirements.cpus, self.requirements.gpus
        files = tuple(Changed(name, file.read_bytes()) for name, file in listed(job.folder, job.plan.id).items())
        task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(run_remotely)
        text, modules = self.shared.text(job), self.shared.modules(job)
        self.stream = task.remote(installed(), cpus, pickle.dumps(job), text, modules, files)


class _Shared:
    """Texts and modules in the object store, put there once however many runs read them."""

    def __init__(self) -> None:
        self._texts: dict[Any, Any] = {}
        self._modules: dict[Path, tuple[Item, ...]] = {}

    def text(self, job: Job) -> list[Any]:
        """A reference to the text; in a list, as Ray fetches no reference inside one before it is asked."""
        import ray

        if job.source not in self._texts:
            self._texts[job.source] = ray.put(job.source.load())
        return [self._texts[job.source]]

    def modules(self, job: Job) -> tuple[Item, ...]:
        import ray

        for path in job.modules:
            if path not in self._modules:
                self._modules[path] = pack(path, ray.put)
        return tuple(item for path in job.modules for item in self._modules[path])


def _room(requirements: Requirements) -> int:
    """How many such runs the living machines can hold at once."""
    return sum(_fitting(machine["Resources"], requirements) for machine in _machines())


def _fitting(has: dict[str, float], requirements: Requirements) -> int:
    by_cpu = int(has.get("CPU", 0) // requirements.cpus)
    return min(by_cpu, int(has.get("GPU", 0) / requirements.gpus)) if requirements.gpus else by_cpu


def _machines() -> list[dict[str, Any]]:
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _check_room(requirements: Requirements) -> None:
    if not _room(requirements):
        most = {kind: max(machine["Resources"].get(kind, 0) for machine in _machines()) for kind in ("CPU", "GPU")}
        raise StudyError(
            f"a run asks for cpus={requirements.cpus} and gpus={requirements.gpus:g}, and no machine of the "
            f"cluster has both (at most {most['CPU']:g} CPUs, {most['GPU']:g} GPUs); ask for less, or start such a "
            "machine first"
        )


def _check_versions() -> None:
    """Refuse machines that would give other numbers than the driver."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    driver, machines = installed(), _machines()
    ask = ray.remote(num_cpus=0, max_retries=0)(installed)
    nodes = [NodeAffinitySchedulingStrategy(machine["NodeID"], soft=False) for machine in machines]
    replies = [ask.options(scheduling_strategy=node).remote() for node in nodes]
    for machine, reply in zip(machines, replies, strict=True):
        address = machine["NodeManagerAddress"]
        try:
            refuse_others(address, driver, ray.get(reply))
        except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
            continue  # it has gone meanwhile
        except ray.exceptions.RayError as error:
            reason = _last_line(error)
            raise StudyError(
                f"machine {address} of the cluster cannot answer ({reason}); install posenc there"
            ) from error


def _last_line(error: Exception) -> str:
    return [line for line in str(error).splitlines() if line.strip()][-1].strip()
