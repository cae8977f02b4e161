"""Training losses as a view: every encoding's curve, smoothed over a fiftieth of the steps."""

from collections.abc import Mapping

import torch

from posenc.workbench.experiments.plan import Curve
from posenc.workbench.experiments.results import TaskResult
from posenc.workbench.report.words import label
from posenc.workbench.views.view import Axis, Line, Lines, View

POINTS = 50
"""Of a curve: each is the mean of as many steps as fit."""


def over_steps(result: TaskResult, curves: Mapping[str, Curve]) -> View:
    """The loss of the training steps, averaged over seeds, by encoding; ``curves`` by plan's id."""
    lines, steps = [], max((len(curve.losses) for curve in curves.values()), default=0)
    width = max(1, steps // POINTS)
    points = steps // width
    for row in result.rows:
        own = [curves[run.plan.id].losses for run in result.runs if run.plan.encoding == row.encoding]
        whole = [torch.tensor(losses[: points * width]) for losses in own if len(losses) >= points * width]
        if whole and points:
            mean = torch.stack(whole).mean(0).unflatten(0, (points, width)).mean(1)
            lines.append(Line(label(row), mean, row.encoding, hollow=not row.ranked))
    centres = tuple(width * (i + 0.5) for i in range(points))
    panel = Lines("training loss", tuple(lines), Axis("step", centres, "steps"), "loss", "nats per target")
    return View(f"{result.task.name.capitalize()}: how each encoding learnt", (panel,))
