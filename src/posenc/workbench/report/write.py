"""Writes a study's page beside the ledger, at its end and while it runs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from posenc.pictures.palette import token
from posenc.pictures.view import View
from posenc.workbench.files import write_atomically
from posenc.workbench.report import charts, tables, words
from posenc.workbench.report.page import picture, render
from posenc.workbench.run.plan import LossCurve, Plan
from posenc.workbench.study.comparison import Outcome
from posenc.workbench.study.results import LOST
from posenc.workbench.study.study import Study
from posenc.workbench.study.toml import as_toml

FIRST = 300
"""Seconds before the first page: a study of minutes keeps its processors for its runs."""
APART = 30
"""Times as long as a page takes to write that pass before the next: a thirtieth of the time goes into pages."""


@dataclass(frozen=True)
class Learning:
    """How far the runs of one encoding on one task have come.

    Args:
        at: the values of the axes in words, where the runs of the task differ in them.
        loss: nats per target over the last tenth of the steps, the mean over seeds.
        validation: the last loss on held-out sequences, the mean over seeds; None before the first.
        steps: that a run has taken, the mean over seeds, of those that are planned.
        rate: tokens read in a second.
    """

    encoding: str
    at: str
    loss: float
    validation: float | None
    steps: int
    planned: int
    rate: int


def write(outcome: Outcome, folder: Path, command: str, study: Study) -> Path:
    """Write ``report.html`` with every figure; returns the page.

    Beside it come ``study.toml``, and its tables as ``tables.json``.
    """
    runs = [run for result in outcome.results for run in result.runs]
    seeds = len({run.plan.seed for run in runs})
    axes = dict.fromkeys(name for task in study.tasks for name in study.axes(task))
    rows = [row for result in outcome.results for row in result.rows]
    pictures = {name: picture(view, name.replace(":", ".")) for name, view in _views(outcome)}
    training = {
        task: _learning(_best(plans, outcome), outcome.curves)
        for task, plans in _by_task(outcome).items()
        if f"{task}-steps" in pictures
    }
    toml = as_toml(study, folder)
    data = {
        "results": list(tables.of_results(outcome.results)),
        "training": {task: [asdict(row) for row in rows] for task, rows in training.items()},
    }
    texts = {
        "study.toml": toml,
        "tables.json": tables.as_json(data),
    }
    page = render(
        "compare.html",
        command=command,
        ran=runs[0].versions if runs else "",
        answer=words.answer(outcome.results),
        outcome=outcome,
        runs=runs,
        seeds=seeds,
        differ=words.together(["encoding", *["seed"] * (seeds > 1), *axes]),
        pictures=pictures,
        training=training,
        refusals=list(dict.fromkeys(row.refusal for row in rows if row.refusal)),
        clamped=any("past_end=clamp" in row.encoding for row in rows),
        lost=LOST,
        study=toml,
        mixed=words.mixed(runs),
        words=words,
        token=token,
        names=words.names(outcome.plans),
    )
    for name, text in {**texts, "report.html": page}.items():
        with write_atomically(folder / name) as partial:  # it may be read at any moment
            partial.write_text(text, encoding="utf-8")
    return folder / "report.html"


class Live:
    """Writes the page of a study under way.

    Args:
        so_far: gives the outcome up to now.
        folder, command, study: as ``write`` takes them.
    """

    def __init__(self, so_far: Callable[[], Outcome], folder: Path, command: str, study: Study) -> None:
        self.so_far, self.folder, self.command, self.study = so_far, folder, command, study
        self.next, self.failed = time.monotonic() + FIRST, False

    def look(self, say: Callable[[str], None]) -> None:
        """Write the page, unless that was done just now; an error is reported once and ends no run."""
        started = time.monotonic()
        if started < self.next:
            return
        try:
            write(self.so_far(), self.folder, self.command, self.study)
        except Exception as error:
            if not self.failed:
                say(f"the page cannot be written yet ({type(error).__name__}: {error}); the runs continue")
            self.failed = True
        ended = time.monotonic()
        self.next = ended + APART * (ended - started)


def _views(outcome: Outcome) -> Iterator[tuple[str, View]]:
    """Every figure by its file's name."""
    for result in outcome.results:
        name = result.name
        yield name, charts.over_lengths(result)
        if positions := charts.over_positions(result):
            yield f"{name}-positions", positions
        if depths := charts.by_depth(result):
            yield f"{name}-depth", depths
    for task, plans in _by_task(outcome).items():
        if steps := charts.over_steps(task, _best(plans, outcome), outcome.curves):
            yield f"{task}-steps", steps


def _by_task(outcome: Outcome) -> dict[str, list[Plan]]:
    """The plans with losses, by task."""
    plans: dict[str, list[Plan]] = {}
    for plan in outcome.plans:
        if plan.id in outcome.curves:
            plans.setdefault(plan.task, []).append(plan)
    return plans


def _best(plans: Sequence[Plan], outcome: Outcome) -> list[Plan]:
    """The plans at the values of the axes that the results are at; of encodings without a result, all."""
    known = {plan.id for result in outcome.results for row in result.grid for plan in (r.plan for r in row.runs)}
    best = {plan.id for result in outcome.results for row in result.rows for plan in (r.plan for r in row.runs)}
    return [plan for plan in plans if plan.id in best or plan.id not in known]


def _learning(plans: Sequence[Plan], curves: Mapping[str, LossCurve]) -> list[Learning]:
    """The last loss, the steps and the speed of these plans, of those together that differ in their seed alone."""
    rows = []
    for (encoding, at), alike in words.by_setting(plans).items():
        losses = [curves[plan.id] for plan in alike]
        rate = sum(curve.tokens for curve in losses) / max(1e-9, sum(curve.seconds for curve in losses))
        last = fmean(curve.final_loss for curve in losses)
        steps = round(fmean(len(curve.losses) for curve in losses))
        held_out = [curve.validation[-1][1] for curve in losses if curve.validation]
        validation = fmean(held_out) if held_out else None
        rows.append(Learning(encoding, at, last, validation, steps, alike[0].steps, round(rate)))
    return rows
