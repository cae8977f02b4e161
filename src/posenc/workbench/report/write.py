"""Writes a study's page beside the ledger, at its end and while it runs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

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
        task: list(_learning(_best(plans, outcome), outcome.curves))
        for task, plans in _by_task(outcome).items()
        if f"{task}-steps" in pictures
    }
    toml = as_toml(study, folder)
    data = {
        "results": list(tables.of_results(outcome.results)),
        "training": training,
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


def _learning(plans: Sequence[Plan], curves: Mapping[str, LossCurve]) -> Iterator[dict[str, Any]]:
    """A row for plans that differ in their seed alone: how far they have come, the mean over seeds.

    ``at`` are the values of axes in words, ``loss`` that over the last tenth of the steps and ``validation`` the
    last one on held-out sequences, in nats per target, ``rate`` the tokens read in a second.
    """
    for (encoding, at), alike in words.by_setting(plans).items():
        losses = [curves[plan.id] for plan in alike]
        held_out = [curve.validation[-1][1] for curve in losses if curve.validation]
        yield {
            "encoding": encoding,
            "at": at,
            "loss": fmean(curve.final_loss for curve in losses),
            "validation": fmean(held_out) if held_out else None,
            "steps": round(fmean(len(curve.losses) for curve in losses)),
            "planned": alike[0].steps,
            "rate": round(sum(c.tokens for c in losses) / max(1e-9, sum(c.seconds for c in losses))),
        }
