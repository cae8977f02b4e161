"""Writes a study's figures (SVG and PNG) and its page beside the ledger."""

from pathlib import Path

from posenc.workbench.experiments.compare import Outcome
from posenc.workbench.experiments.results import TaskResult
from posenc.workbench.figures.draw import save
from posenc.workbench.report import charts
from posenc.workbench.report.page import page
from posenc.workbench.views.view import View

BANDS = "Bands are 95% intervals; hollow markers did not converge."


def write(outcome: Outcome, folder: Path, command: str) -> Path:
    """Draw every figure, embed the SVGs in ``report.html``; returns the page."""
    figures: dict[str, list[tuple[str, Path]]] = {}
    for result in outcome.results:
        for name, caption, view in _views(result):
            save(view, folder / "figures" / f"{name}.png")
            path = save(view, folder / "figures" / f"{name}.svg")
            figures.setdefault(result.task.name, []).append((caption, path))
    target = folder / "report.html"
    target.write_text(page(outcome, figures, command), encoding="utf-8")
    return target


def _views(result: TaskResult) -> list[tuple[str, str, View]]:
    """File name, caption and view of every figure of a task, the one that shows the answer first."""
    task = result.task
    made = [(task.name, f"{task.question.capitalize()}. {BANDS}", charts.over_lengths(result))]
    if positions := charts.over_positions(result):
        caption = f"Loss at every position of windows of {result.longest}, mean over windows."
        made.append((f"{task.name}-positions", caption, positions))
    if depths := charts.by_depth(result):
        caption = f"{task.name.capitalize()}: share of right answers by where the answer lies."
        made.append((f"{task.name}-depth", caption, depths))
    return made
