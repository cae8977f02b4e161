"""Writes a study's page next to its ledger, both while the study runs and when it ends."""

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from posenc.pictures.palette import token
from posenc.pictures.view import View
from posenc.workbench.files import as_json, write_texts
from posenc.workbench.report import charts, words
from posenc.workbench.report.page import picture, render
from posenc.workbench.run.plan import LossCurve, Plan, custom_classes
from posenc.workbench.study.comparison import Outcome
from posenc.workbench.study.results import LOST, TaskResult, effective_length
from posenc.workbench.study.statistics import Interval
from posenc.workbench.study.study import Study, as_toml

FIRST = 300
"""The number of seconds before a running study's page is first written. A study that ends sooner
spends all processor time on its runs."""
APART = 30
"""The pause between two writes of the page, as a multiple of the time that a write takes."""


def write(outcome: Outcome, folder: Path, command: str, study: Study) -> Path:
    """Write ``report.html`` with every figure, and return its path.

    Also write ``study.toml``, and the tables as ``tables.json``.
    """
    runs = [run for result in outcome.results for run in result.runs]
    seeds = len({run.plan.seed for run in runs})
    axes = dict.fromkeys(name for task in study.tasks for name in study.axes(task))
    rows = [row for result in outcome.results for row in result.rows]
    pictures = {name: picture(view, name.replace(":", ".")) for name, view in _views(outcome)}
    training = {
        task: list(_learning(plans, outcome.curves))
        for task, plans in _trained(outcome).items()
        if f"{task}-steps" in pictures
    }
    custom = dict.fromkeys(name for plan in outcome.plans for name in custom_classes(plan.encoding, plan.task))
    toml = as_toml(study, folder)
    page = render(
        "compare.html",
        command=command,
        here=f"{shlex.quote(Path(os.path.relpath(folder)).as_posix())}/" if custom else "",
        custom=custom,
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
    tables = {"results": list(of_results(outcome.results)), "training": training}
    # written atomically, because a page may be read at any moment
    write_texts(folder, {"study.toml": toml, "tables.json": as_json(tables, indent=1), "report.html": page})
    return folder / "report.html"


class Live:
    """Writes the page of a running study.

    Args:
        page: a function that writes the page with the current results.
    """

    def __init__(self, page: Callable[[], object]) -> None:
        self.page, self.next, self.failed = page, time.monotonic() + FIRST, False

    def look(self, say: Callable[[str], None]) -> None:
        """Write the page unless it was written recently. An error is reported once and does not stop the runs."""
        started = time.monotonic()
        if started < self.next:
            return
        try:
            self.page()
        except Exception as error:
            if not self.failed:
                say(f"the page cannot be written yet ({type(error).__name__}: {error}); the runs continue")
            self.failed = True
        ended = time.monotonic()
        self.next = ended + APART * (ended - started)


def _views(outcome: Outcome) -> Iterator[tuple[str, View]]:
    """Yield the name and the view of every figure."""
    for result in outcome.results:
        yield result.name, charts.over_lengths(result)
        if positions := charts.over_positions(result):
            yield f"{result.name}-positions", positions
        if depths := charts.by_depth(result):
            yield f"{result.name}-depth", depths
    for task, plans in _trained(outcome).items():
        if steps := charts.over_steps(task, plans, outcome.curves):
            yield f"{task}-steps", steps


def _trained(outcome: Outcome) -> dict[str, list[Plan]]:
    """Return, by task, the plans whose losses the page shows.

    A plan with a result is shown only if its axis values are the best for its encoding.
    """
    known = {run.plan.id for result in outcome.results for row in result.grid for run in row.runs}
    best = {run.plan.id for result in outcome.results for row in result.rows for run in row.runs}
    plans = [p for p in outcome.plans if p.id in outcome.curves and (p.id in best or p.id not in known)]
    return {task: [p for p in plans if p.task == task] for task in dict.fromkeys(p.task for p in plans)}


def _learning(plans: Sequence[Plan], curves: Mapping[str, LossCurve]) -> Iterator[dict[str, Any]]:
    """Yield rows of training progress, one for each group of plans that differ only in their seed. Values are
    means over seeds.

    ``at`` has the axis values as text. ``loss`` is the mean training loss over the last tenth of the steps, and
    ``validation`` is the last loss on held-out sequences, both in nats per target. ``rate`` is in tokens per
    second.
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


def of_results(results: Iterable[TaskResult]) -> Iterator[dict[str, Any]]:
    """Yield one row for each task, encoding and combination of axis values, with losses in nats.

    For each encoding, ``at_best_values`` is True only in the row with the axis values that are best at the trained
    length; the page compares this row with those of other encodings. ``change`` maps every longer length to the
    amount by which the measure is worse there than at the trained length.
    """
    for result in results:
        for row in result.grid or result.rows:
            best = next(one for one in result.rows if one.encoding == row.encoding)
            length, compared = effective_length(result, row), best.at == row.at
            yield {
                "task": result.name,
                "encoding": row.encoding,
                **row.at,
                "measure": result.task.measure,
                "verdict": result.verdict(row),
                "at_best_values": compared,
                "seeds": len(row.runs),
                "converged": row.converged[0],
                "values": _by_length(row.values),
                "windows": _by_length(row.windows),
                "change": _by_length(row.lost),
                "to_best": asdict(best.to_best) if compared and best.to_best else None,
                "effective_length": length.as_json() if length else None,
            }


def _by_length(values: Mapping[int, Interval]) -> dict[int, dict[str, Any]]:
    return {length: asdict(interval) for length, interval in values.items()}
