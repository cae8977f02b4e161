"""Writes a study's figures (SVG and PNG) and its page beside the ledger."""

from pathlib import Path

from posenc.pictures.view import View
from posenc.workbench.files import write_atomically
from posenc.workbench.report import charts, losses
from posenc.workbench.report.blocks import Picture
from posenc.workbench.report.builder import build, embedded
from posenc.workbench.report.page import page
from posenc.workbench.study.comparison import Outcome
from posenc.workbench.study.results import TaskResult
from posenc.workbench.study.study import Study
from posenc.workbench.study.toml import as_toml


def write(outcome: Outcome, folder: Path, command: str, study: Study) -> Path:
    """Draw every figure, embed them in ``report.html``; returns the page."""
    pictures: dict[str, list[Picture]] = {}
    for result in outcome.results:
        for name, caption, view in _views(result):
            pictures.setdefault(result.task.name, []).append(embedded(view, caption, name, folder / "figures"))
    target = folder / "report.html"
    made = build(page(outcome, pictures, losses.part(outcome, folder), command, as_toml(study)))
    with write_atomically(target) as partial:  # it may be loaded at any moment
        partial.write_text(made, encoding="utf-8")
    return target


def _views(result: TaskResult) -> list[tuple[str, str, View]]:
    """File name, caption and view of every figure of a task, the one that shows the answer first."""
    task = result.task
    made = [(task.name, f"{result.question.capitalize()}. {_bands(result)}", charts.over_lengths(result))]
    if positions := charts.over_positions(result):
        caption = f"Loss at every position of windows of {result.longest}, mean over windows."
        made.append((f"{task.name}-positions", caption, positions))
    if depths := charts.by_depth(result):
        caption = f"{task.name.capitalize()}: share of right answers by where the answer lies."
        made.append((f"{task.name}-depth", caption, depths))
    return made


def _bands(result: TaskResult) -> str:
    """What the bands of a chart are intervals over."""
    if len({run.plan.seed for run in result.runs}) > 1:
        over = "seeds"
    else:
        what = "windows of text, of one run" if result.task.measure == "loss" else "answers, of one run"
        over = f"{result.runs[0].plan.test_count} {what}"
    return f"Bands are 95% intervals over {over}; hollow markers did not converge."
