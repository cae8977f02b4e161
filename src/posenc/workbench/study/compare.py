"""compare: carries out what is missing of a study and gathers what it found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from posenc.encodings.foreign import modules
from posenc.encodings.text import parse
from posenc.workbench.run.job import Failure, Launcher, Progress, Report, unheard
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Curve, Plan, Run
from posenc.workbench.run.training import TrainingJob, encoding
from posenc.workbench.run.weights import FOLDER, place, whole
from posenc.workbench.study.results import TaskResult, summarise
from posenc.workbench.study.study import Study
from posenc.workbench.tasks import Task, Text, task


@dataclass(frozen=True)
class Outcome:
    """What a study found, now or at its end.

    Args:
        failures: of plans that failed.
        plans: all that it asks for.
        curves: losses by step, by plan's id, of those that have ended and of those under way.
        ended: how many have left a run.
    """

    results: tuple[TaskResult, ...]
    failures: tuple[Failure, ...]
    text: Text
    plans: tuple[Plan, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    ended: int = 0


def missing(study: Study, text: Text, ledger: Ledger) -> list[Plan]:
    """The plans of a study that the ledger does not hold yet, or holds without the weights that they left."""
    done = ledger.ids()
    return [p for p in study.plans(text) if p.id not in done or not whole(place(ledger.folder, p))]


def compare(
    study: Study,
    text: Text,
    ledger: Ledger,
    launcher: Launcher,
    *,
    report: Report = unheard,
    finished: Callable[[Run[Plan] | Failure], None] = lambda result: None,
) -> Outcome:
    """Carry out the missing plans, keep each run as it ends, and summarise the whole study.

    Killed at any moment and called again, it does what is missing and finds the same. A text that cannot serve and
    an encoding that cannot be built are refused before anything is trained.
    """
    for name in study.tasks:
        _task(study, name, text)
    todo = missing(study, text, ledger)
    for plan in {(plan.settings, plan.train_length): plan for plan in todo}.values():
        encoding(plan)
    known, failures = ledger.ids(), list[Failure]()

    def heard(progress: Progress) -> None:
        ledger.note(progress)
        report(progress)

    def done(result: Run[Plan] | Failure) -> None:
        if isinstance(result, Failure):
            failures.append(result)
        else:
            ledger.add(result, again=result.plan.id in known)
        finished(result)

    folder = ledger.folder.resolve() / FOLDER
    jobs = [TrainingJob(plan, study.source, folder, modules(parse(plan.settings).foreign)) for plan in todo]
    launcher(jobs, done, heard)
    return outcome(study, text, ledger, failures)


def outcome(study: Study, text: Text, ledger: Ledger, failures: Sequence[Failure] = ()) -> Outcome:
    """What the ledger has of a study, losses of runs under way among it."""
    plans = tuple(study.plans(text))
    curves = {plan.id: ledger.curve(plan.id) for plan in plans}
    ended = len({plan.id for plan in plans} & ledger.ids())
    told = {run: curve for run, curve in curves.items() if curve.losses}
    return Outcome(gather(study, text, ledger), tuple(failures), text, plans, told, ended)


def gather(study: Study, text: Text, ledger: Ledger) -> tuple[TaskResult, ...]:
    """The results of a study's finished runs, task by task."""
    plans = study.plans(text)
    order = {plan.id: index for index, plan in enumerate(plans)}
    runs = sorted(ledger.runs(order), key=lambda run: order[run.plan.id])
    results = []
    for name in study.tasks:
        of_task = [run for run in runs if run.plan.task == name]
        if of_task:
            results.append(summarise(_task(study, name, text), of_task))
    return tuple(results)


def _task(study: Study, name: str, text: Text) -> Task:
    return task(name, text, study.test_lengths(name)[-1], study.portions(name)["train_length"])
