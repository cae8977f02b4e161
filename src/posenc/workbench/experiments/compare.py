"""compare: carries out what is missing of a study and gathers what it found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from posenc.workbench.experiments.job import training
from posenc.workbench.experiments.ledger import Ledger
from posenc.workbench.experiments.plan import Plan, Run
from posenc.workbench.experiments.results import TaskResult, summarise
from posenc.workbench.experiments.study import Study
from posenc.workbench.experiments.trainer import encoding
from posenc.workbench.launch.job import Failure, Job, Launcher
from posenc.workbench.launch.store import Store
from posenc.workbench.tasks import Text, task


@dataclass(frozen=True)
class Outcome:
    """What a study found, and the plans that failed."""

    results: tuple[TaskResult, ...]
    failures: tuple[Failure, ...]
    text: Text


def missing(study: Study, text: Text, ledger: Ledger) -> list[Plan]:
    """The plans of a study that the ledger does not hold yet."""
    done = ledger.ids()
    return [plan for plan in study.plans(text) if plan.id not in done]


def compare(
    study: Study,
    text: Text,
    ledger: Ledger,
    launcher: Launcher,
    *,
    progress: Callable[[int], None] = lambda steps: None,
    finished: Callable[[str, Run | Failure], None] = lambda name, found: None,
) -> Outcome:
    """Carry out the missing plans, keep each run as it ends, and summarise the whole study.

    Killed at any moment and called again, it does what is missing and finds the same. A text that cannot serve and
    an encoding that cannot be built are refused before anything is trained.
    """
    for name in study.tasks:
        task(name, text, study.test_lengths(name)[-1])
    todo = missing(study, text, ledger)
    for plan in {(plan.settings, plan.train_length): plan for plan in todo}.values():
        encoding(plan)
    listener = _Listener(ledger, progress, finished, [])
    launcher([training(plan, study.text) for plan in todo], Store.at(ledger.folder), listener)
    return Outcome(gather(study, text, ledger), tuple(listener.failures), text)


@dataclass(frozen=True)
class _Listener:
    """Keeps every run as it ends, and passes on what is to be seen."""

    ledger: Ledger
    stepped: Callable[[int], None]
    finished: Callable[[str, Run | Failure], None]
    failures: list[Failure]

    def progress(self, job: Job, steps: int, losses: Sequence[float]) -> None:
        self.stepped(steps)

    def done(self, job: Job, found: Run | Failure) -> None:
        if isinstance(found, Failure):
            self.failures.append(found)
        else:
            self.ledger.add(found)
        self.finished(job.name, found)


def gather(study: Study, text: Text, ledger: Ledger) -> tuple[TaskResult, ...]:
    """The results of a study's finished runs, task by task."""
    plans = study.plans(text)
    order = {plan.id: index for index, plan in enumerate(plans)}
    runs = sorted(ledger.runs(order), key=lambda run: order[run.plan.id])
    results = []
    for name in study.tasks:
        of_task = [run for run in runs if run.plan.task == name]
        if of_task:
            results.append(summarise(task(name, text, study.test_lengths(name)[-1]), of_task))
    return tuple(results)
