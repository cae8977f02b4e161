"""The Ray launcher: jobs go to an existing cluster, and all that they leave comes back through its object store.

No folder is shared. A job is a task that yields what it reports and keeps while it runs; the driver writes it down.
A task whose machine dies is handed out again from what it last kept.
"""

import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.errors import MissingExtra, StudyError
from posenc.workbench.launch.desk import Reports
from posenc.workbench.launch.job import Failure, Job, Listener, Needs, carry_out
from posenc.workbench.launch.parcel import Item, Unpacked, pack
from posenc.workbench.launch.same import differences, installed
from posenc.workbench.launch.store import Store

LOOK_EVERY = 1.0
"""Seconds after which the driver looks for machines that have joined."""

QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": "Raylet is terminated"}
"""Set before Ray is imported: the last words of a machine that dies are a page of its counters."""


class Ray:
    """Carries out jobs on the cluster that ``ray start`` or ``RAY_ADDRESS`` names.

    A job waits until a machine has the cores and GPUs that it asks for; ``GPU`` are Ray's logical ones, and a job
    sees those that it was given. Every machine needs the driver's versions of posenc, torch and Python.

    Raises:
        MissingExtra: Ray is not installed.
        StudyError: no cluster is there, or its machines have other versions.
    """

    def __init__(self, address: str = "auto") -> None:
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

    def __call__(self, jobs: Iterable[Job], store: Store, listener: Listener) -> None:
        waiting = list(jobs)
        for needs in dict.fromkeys(job.needs for job in waiting):
            _check_room(needs)
        running: list[_Running] = []
        parcels = _Parcels()
        while waiting or running:
            while waiting and len(running) < _room(waiting[0].needs):
                running.append(_Running(waiting.pop(0), store, listener, parcels))
            ended = [task for task in _ready(running) if task.hear()]
            running = [task for task in running if task not in ended]


def _ready(running: "list[_Running]") -> "list[_Running]":
    """The tasks that have something to say, or that have ended."""
    import ray

    heard, _ = ray.wait([task.stream for task in running], num_returns=1, timeout=LOOK_EVERY)
    return [task for task in running if task.stream in heard]


class _Running:
    """A job on the cluster, as the driver sees it; it starts when it is made."""

    def __init__(self, job: Job, store: Store, listener: Listener, parcels: "_Parcels") -> None:
        self.job, self.store, self.listener, self.parcels = job, store, listener, parcels
        self.deaths = 0
        self._start()

    def hear(self) -> bool:
        """Take the next thing that it says; whether it has ended."""
        import ray

        try:
            said = ray.get(next(self.stream))
        except StopIteration:
            raise StudyError(f"{self.job.name} ended on the cluster without a word; run the same command") from None
        except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
            return self._again()
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
            self.deaths += 1
            return self._again()
        except ray.exceptions.RayTaskError as error:
            return self._done(Failure.of(self.job.name, error.cause))
        except ray.exceptions.RayError as error:
            return self._done(Failure(self.job.name, _last_line(error)))
        if isinstance(said, _Found):
            return self._done(said.value)
        for name, data in said.kept:
            self.store.write(name, data)
        self.listener.progress(self.job, said.steps, said.losses)
        return False

    def _done(self, found: Any) -> bool:
        self.listener.done(self.job, found)
        return True

    def _again(self) -> bool:
        """Start once more; one whose process died twice, on machines that live, is given up."""
        if self.deaths == 2:
            return self._done(Failure(self.job.name, "its worker process died twice (out of memory, or killed)"))
        self._start()
        return False

    def _start(self) -> None:
        import ray

        kept = {name: data for name in self.job.resumes if (data := self.store.read(name)) is not None}
        task = ray.remote(num_cpus=self.job.needs.cpus, num_gpus=self.job.needs.gpus, max_retries=0)(_task)
        self.stream = task.remote(installed(), pickle.dumps(self.job), self.parcels.of(self.job), kept)


class _Parcels:
    """What jobs read, put into the object store once however many of them read it."""

    def __init__(self) -> None:
        self._packed: dict[Path, tuple[Item, ...]] = {}

    def of(self, job: Job) -> tuple[Item, ...]:
        import ray

        for path in (*job.files, *job.modules):
            if path not in self._packed:
                self._packed[path] = pack([path], ray.put)
        return tuple(item for path in (*job.files, *job.modules) for item in self._packed[path])


@dataclass(frozen=True)
class _Said:
    """What a running job has done and kept since it last said something."""

    steps: int = 0
    losses: tuple[float, ...] = ()
    kept: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class _Found:
    """The last thing that a job says."""

    value: Any


class _Desk(Reports):
    """A desk far from its store: what is kept travels with the reports."""

    def __init__(self, files: Unpacked, kept: dict[str, bytes], say: Callable[[Any], None]) -> None:
        super().__init__(lambda steps, losses: say(_Said(steps, losses)))
        self.files, self.kept, self.tell = files, kept, say

    def read(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def keep(self, name: str, data: bytes) -> None:
        self.flush()
        self.tell(_Said(kept=((name, data),)))

    def path(self, file: Path) -> Path:
        return self.files.path(file)


def _task(driver: dict[str, str], packed: bytes, items: tuple[Item, ...], kept: dict[str, bytes]) -> Iterator[Any]:
    """On the worker: the job runs on a thread of its own, so that what it says is passed on while it runs."""
    import ray

    said: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work() -> None:
        try:
            _refuse(ray.util.get_node_ip_address(), driver, installed())  # it may have joined since all were asked
            job: Job = pickle.loads(packed)
            desk = _Desk(Unpacked(items, ray.get), kept, said.put)
            found = carry_out(job, desk)
            desk.flush()
            said.put(_Found(found))
        except BaseException as error:
            said.put(error)

    threading.Thread(target=work, daemon=True).start()
    while True:
        something = said.get()
        if isinstance(something, BaseException):
            raise something
        yield something
        if isinstance(something, _Found):
            return


def _room(needs: Needs) -> int:
    """How many such jobs the living machines can hold at once."""
    return sum(_fitting(node, needs) for node in _nodes())


def _fitting(node: dict[str, Any], needs: Needs) -> int:
    has = node["Resources"]
    by_cpu = int(has.get("CPU", 0) // needs.cpus)
    return min(by_cpu, int(has.get("GPU", 0) / needs.gpus)) if needs.gpus else by_cpu


def _nodes() -> list[dict[str, Any]]:
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _check_room(needs: Needs) -> None:
    if not _room(needs):
        most = {kind: max(node["Resources"].get(kind, 0) for node in _nodes()) for kind in ("CPU", "GPU")}
        raise StudyError(
            f"a run asks for cpus={needs.cpus} and gpus={needs.gpus:g}, and no machine of the cluster has both (at "
            f"most {most['CPU']:g} CPUs, {most['GPU']:g} GPUs); ask for less, or start such a machine first"
        )


def _check_versions() -> None:
    """Refuse machines that would give other numbers than the driver."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here, machines = installed(), _nodes()
    ask = ray.remote(num_cpus=0, max_retries=0)(installed)
    places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in machines]
    asked = [ask.options(scheduling_strategy=place).remote() for place in places]
    for machine, answer in zip(machines, asked, strict=True):
        address = machine["NodeManagerAddress"]
        try:
            _refuse(address, here, ray.get(answer))
        except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
            continue  # it has gone meanwhile
        except ray.exceptions.RayError as error:
            said = _last_line(error)
            raise StudyError(
                f"machine {address} of the cluster cannot answer ({said}); install posenc there"
            ) from error


def _refuse(machine: str, here: dict[str, str], theirs: dict[str, str]) -> None:
    differ = differences(here, theirs)
    if differ:
        raise StudyError(
            f"machine {machine} of the cluster has {differ}; install the driver's versions there, or hand them "
            "over with ray job submit --runtime-env"
        )


def _last_line(error: Exception) -> str:
    return [line for line in str(error).splitlines() if line.strip()][-1].strip()
