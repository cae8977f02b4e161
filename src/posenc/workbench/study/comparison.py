"""Compares the encodings of a study: finds the plans that have no run yet, runs them, and collects all results."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from posenc.encodings.text import parse
from posenc.workbench.custom_code import one_sentence
from posenc.workbench.launch.launcher import carry_out
from posenc.workbench.run.checkpoint import FOLDER, complete, path_of
from posenc.workbench.run.footprint import check_room, footprint
from posenc.workbench.run.job import Failure, Launcher, Report, ignore_progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import LossCurve, Plan, Run
from posenc.workbench.run.training import TrainingJob, encoding, task_of
from posenc.workbench.study.results import TaskResult, summarise
from posenc.workbench.study.study import Study
from posenc.workbench.tasks import Task, Text


@dataclass(frozen=True)
class Outcome:
    """The results of a study, either while it runs or when it has ended.

    Args:
        failures: the plans that failed.
        plans: all plans of the study.
        curves: the losses of every run by plan id, including unfinished runs.
    """

    results: tuple[TaskResult, ...]
    failures: tuple[Failure, ...]
    text: Text | None
    plans: tuple[Plan, ...] = ()
    curves: Mapping[str, LossCurve] = field(default_factory=dict)


class Comparison:
    """A study with its text, its ledger and its plans.

    ``missing`` lists the plans that had no run, or no weights in the study's folder, when the comparison was
    created.

    Args:
        study: the study to run.
        text: the text of the task ``language``; None if no task reads a text.
        ledger: the study's ledger, to which ``run`` writes finished runs.
        part: a slice that selects the plans to compare; by default all plans of the study.

    Raises:
        StudyError: the text is too short for a task.
    """

    def __init__(self, study: Study, text: Text | None, ledger: Ledger, part: slice = slice(None)) -> None:
        self.study, self.text, self.ledger = study, text, ledger
        self.plans = tuple(study.plans(text)[part])
        trained = {(plan.task, plan.train_length): plan for plan in self.plans}
        self.tasks = {key: _task(plan, text) for key, plan in trained.items()}
        finished = ledger.ids()
        self.missing = [p for p in self.plans if p.id not in finished or not complete(path_of(ledger.folder, p))]

    def check(self, devices: Sequence[str] = ()) -> None:
        """Check every plan in ``missing``, before any model is trained.

        Args:
            devices: the device of each worker process; runs on the same device share its memory. If the launcher
                does not know the devices, pass an empty list; memory and disk are then not checked.

        Raises:
            StudyError: an encoding cannot be built, or the runs do not fit into memory or on the disk.
        """
        footprints = []
        alike = {replace(plan, seed=0, learning_rate=1.0): plan for plan in self.missing}
        for plan in alike.values():
            with one_sentence(f"encoding {plan.encoding!r}", parse(plan.encoding).foreign):
                built = encoding(plan)
            if devices:
                footprints.append(footprint(plan, self.tasks[plan.task, plan.train_length], built))
        if footprints:
            check_room(footprints, self.missing, self.ledger.folder, devices)

    def run(
        self,
        launcher: Launcher,
        *,
        report: Report = ignore_progress,
        finished: Callable[[Run | Failure], None] = lambda result: None,
    ) -> Outcome:
        """Train and test every plan in ``missing``, add each run to the ledger as it ends, and return all results.

        Plans are checked before the first run. A comparison that is killed, and then created and run again, gives
        the same results as an uninterrupted comparison.
        """
        self.check(getattr(launcher, "devices", ()))
        folder, source = self.ledger.folder.resolve() / FOLDER, self.study.source
        jobs = [TrainingJob(plan=p, folder=folder, source=source if p.text_sha256 else None) for p in self.missing]
        return self.outcome(carry_out(jobs, launcher, self.ledger, report, finished))

    def outcome(self, failures: Sequence[Failure] = ()) -> Outcome:
        """Return the results in the ledger so far, with the losses of unfinished runs."""
        order = {plan.id: index for index, plan in enumerate(self.plans)}
        runs = sorted(self.ledger.runs(order), key=lambda run: order[run.plan.id])
        names = result_names(sorted(self.tasks, key=lambda key: (self.study.tasks.index(key[0]), key[1])))
        results = tuple(
            summarise(self.tasks[key], group, name)
            for key, name in names.items()
            if (group := [run for run in runs if (run.plan.task, run.plan.train_length) == key])
        )
        curves = {id: curve for id in order if (curve := self.ledger.curve(id)).losses}
        return Outcome(results, tuple(failures), self.text, self.plans, curves)


def result_names(keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the name of each result by task and trained length, such as ``language``, or ``language-64`` if the
    task has several trained lengths."""
    trained = Counter(task for task, _ in keys)
    return {(task, length): f"{task}-{length}" if trained[task] > 1 else task for task, length in keys}


def _task(plan: Plan, text: Text | None) -> Task:
    """Return the task of a plan.

    One batch of a custom task is drawn, so that errors in its code appear before any training.
    """
    if ":" not in plan.task:
        return task_of(plan, text)
    with one_sentence(f"task {plan.task!r}", (plan.task,)):
        task = task_of(plan, text)
        task.train_batch(torch.Generator(), 1)
        return task
