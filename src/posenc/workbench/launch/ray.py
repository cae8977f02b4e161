"""The Ray launcher: runs go to an existing cluster, and all that they leave comes back through its object store.

No folder is shared. A run is a task that yields what it says and keeps while it goes on; the driver writes it down.
One whose machine dies is handed out again from what it last kept.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posenc.errors import MissingExtra, StudyError
from posenc.workbench.launch.code_shipping import Item, pack
from posenc.workbench.launch.determinism import installed, refuse_others
from posenc.workbench.launch.remote import Found, Kept, carry_out, left
from posenc.workbench.launch.requirements import Needs
from posenc.workbench.run.job import Failure, Job, Report
from posenc.workbench.run.plan import Run

LOOK_EVERY = 1.0
"""Seconds after which the driver looks for machines that have joined."""

QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": "Raylet is terminated"}
"""Set before Ray is imported: the last words of a machine that dies are a page of its counters."""


class Ray:
    """Carries out jobs on the cluster that ``ray start`` or ``RAY_ADDRESS`` names.

    A run waits until a machine has the cores and GPUs that it asks for, and sees the GPUs that Ray gave it. Every
    machine needs the driver's versions of posenc, torch and Python.

    Raises:
        MissingExtra: Ray is not installed.
        StudyError: no cluster is there, its machines have other versions, or none has what a run asks for.
    """

    def __init__(self, needs: Needs | None = None, address: str = "auto") -> None:
        self.needs = needs or Needs()
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
        _check_room(self.needs)

    def __call__(self, jobs: Sequence[Job], done: Callable[[Run | Failure], None], report: Report) -> None:
        import ray

        waiting, shared = list(jobs), _Shared()
        running: dict[Any, _Running] = {}
        while waiting or running:
            while waiting and len(running) < _room(self.needs):
                task = _Running(waiting.pop(0), self.needs, shared)
                running[task.stream] = task
            heard, _ = ray.wait(list(running), timeout=LOOK_EVERY) if running else ([], [])
            for stream in heard:
                task = running.pop(stream)
                ended = task.hear(report)
                if ended is None:
                    running[task.stream] = task
                else:
                    done(ended)


class _Running:
    """A run on the cluster, as the driver sees it; it starts when it is made."""

    def __init__(self, job: Job, needs: Needs, shared: "_Shared") -> None:
        self.job, self.needs, self.shared = job, needs, shared
        self.deaths = 0
        self._start()

    def hear(self, report: Report) -> Run | Failure | None:
        """Take the next thing that it says; what came of it, once it has ended."""
        import ray

        try:
            said = ray.get(next(self.stream))
        except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
            return self._again()
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
            self.deaths += 1
            return self._again()
        except ray.exceptions.RayTaskError as error:
            return Failure.of(self.job.plan, error.cause)
        except ray.exceptions.RayError as error:
            return Failure(self.job.plan, _last_line(error))
        if isinstance(said, Found):
            return said.value
        if isinstance(said, Kept):
            said.write(self.job.folder)
        else:
            report(said)
        return None

    def _again(self) -> Failure | None:
        """Start once more; one whose process died twice, on machines that live, is given up."""
        if self.deaths == 2:
            return Failure(self.job.plan, "its worker process died twice (out of memory, or killed)")
        self._start()
        return None

    def _start(self) -> None:
        import ray

        files = left(self.job.folder, self.job.plan.id)
        kept = tuple(Kept(name, file.read_bytes()) for name, file in files.items())
        task = ray.remote(num_cpus=self.needs.cpus, num_gpus=self.needs.gpus, max_retries=0)(carry_out)
        text, modules = self.shared.text(self.job), self.shared.modules(self.job)
        self.stream = task.remote(installed(), self.needs.cpus, pickle.dumps(self.job), text, modules, kept)


class _Shared:
    """What runs read, put into the object store once however many of them read it."""

    def __init__(self) -> None:
        self._texts: dict[Any, Any] = {}
        self._modules: dict[Path, tuple[Item, ...]] = {}

    def text(self, job: Job) -> list[Any]:
        """Where the text is to be had; in a list, as Ray fetches no reference inside one before it is asked."""
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


def _room(needs: Needs) -> int:
    """How many such runs the living machines can hold at once."""
    return sum(_fitting(machine["Resources"], needs) for machine in _machines())


def _fitting(has: dict[str, float], needs: Needs) -> int:
    by_cpu = int(has.get("CPU", 0) // needs.cpus)
    return min(by_cpu, int(has.get("GPU", 0) / needs.gpus)) if needs.gpus else by_cpu


def _machines() -> list[dict[str, Any]]:
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _check_room(needs: Needs) -> None:
    if not _room(needs):
        most = {kind: max(machine["Resources"].get(kind, 0) for machine in _machines()) for kind in ("CPU", "GPU")}
        raise StudyError(
            f"a run asks for cpus={needs.cpus} and gpus={needs.gpus:g}, and no machine of the cluster has both (at "
            f"most {most['CPU']:g} CPUs, {most['GPU']:g} GPUs); ask for less, or start such a machine first"
        )


def _check_versions() -> None:
    """Refuse machines that would give other numbers than the driver."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here, machines = installed(), _machines()
    ask = ray.remote(num_cpus=0, max_retries=0)(installed)
    places = [NodeAffinitySchedulingStrategy(machine["NodeID"], soft=False) for machine in machines]
    asked = [ask.options(scheduling_strategy=place).remote() for place in places]
    for machine, answer in zip(machines, asked, strict=True):
        address = machine["NodeManagerAddress"]
        try:
            refuse_others(address, here, ray.get(answer))
        except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
            continue  # it has gone meanwhile
        except ray.exceptions.RayError as error:
            said = _last_line(error)
            raise StudyError(
                f"machine {address} of the cluster cannot answer ({said}); install posenc there"
            ) from error


def _last_line(error: Exception) -> str:
    return [line for line in str(error).splitlines() if line.strip()][-1].strip()
