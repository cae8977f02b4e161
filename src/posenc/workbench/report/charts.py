"""Figures of results: accuracy or perplexity by test length, losses by position and by training step, and accuracy
by the depth of the answer."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from posenc.pictures.palette import style
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View
from posenc.workbench.report.words import best_inside, by_setting, heading, label, together, verdict
from posenc.workbench.run.plan import LossCurve, Plan
from posenc.workbench.study.results import Row, TaskResult
from posenc.workbench.study.statistics import perplexity

EVERYWHERE = 0.95
"""The share of right answers that an encoding must reach at every depth and test length to count as finding the
answer at every depth."""
POINTS = 50
"""The number of points in a curve over training steps. Each point is a mean over the same number of steps."""


def over_lengths(result: TaskResult) -> View:
    """Draw every encoding's accuracy or perplexity at every test length, with its interval."""
    task, loss = result.task, result.task.measure == "loss"
    last = f"guessing from the last {result.unit} alone"  # the gate of language, unless frequencies guess better
    panel = Lines(
        result.name,
        tuple(_line(result, row) for row in result.rows),
        Axis("test length", tuple(map(float, result.lengths)), "tokens", log=True),
        f"perplexity per {result.unit}" if loss else "share of right answers",
        y_log=loss,
        marks=((float(result.lengths[0]), "trained to here"),),
        levels=((math.exp(task.gate), last if task.name == "language" and task.gate < task.chance else "gate"),)
        if loss
        else ((task.gate, "gate"), (task.chance, "chance")),
    )
    best = f"; {label(row)} is best at {result.lengths[0]}" if (row := best_inside(result)) else ""
    return View(f"{heading(result.name)}: at {result.longest} tokens {verdict(result)}{best}", (panel,))


def _line(result: TaskResult, row: Row) -> Line:
    show = perplexity if result.task.measure == "loss" else float
    at = [row.values.get(n) for n in result.lengths]
    mean, low, high = (
        torch.tensor([math.nan if v is None else show(end(v)) for v in at])
        for end in (
            lambda v: v.mean,
            lambda v: min(v.seeds * result.has_two_seeds or (v.low,)),
            lambda v: max(v.seeds * result.has_two_seeds or (v.high,)),
        )
    )
    return Line(
        label(row) if row.ranked else f"{label(row)}, not converged",
        mean,
        row.encoding,
        low,
        high,
        hollow=not row.ranked,
    )


def over_positions(result: TaskResult) -> View | None:
    """Draw every encoding's loss at every position of the longest test windows. Return None if no run has losses
    by position."""
    lines = tuple(
        Line(label(row), mean, row.encoding, hollow=not row.ranked)
        for row in result.rows
        if (mean := _mean(row, result.longest, "loss_by_position")) is not None
    )
    if not lines:
        return None
    width = result.longest // len(lines[0].values)
    centres = tuple(width * (i + 0.5) for i in range(len(lines[0].values)))
    panel = Lines(
        "by position",
        lines,
        Axis("position", centres, "tokens"),
        "loss",
        f"nats per {result.unit}",
        marks=((float(result.lengths[0]), "trained to here"),),
    )
    return View("Where in a long window each encoding stops reading well", (panel,))


def by_depth(result: TaskResult) -> View | None:
    """Draw the accuracy by test length and by the depth of the answer in the sequence, with one panel per
    encoding. Return None if no run has accuracies by depth."""
    panels = []
    for row in result.rows:
        shares = {n: m for n in result.lengths if (m := _mean(row, n, "accuracy_by_depth")) is not None}
        if shares:
            values = torch.stack([*shares.values()])
            depths = tuple((i + 0.5) / values.shape[1] for i in range(values.shape[1]))
            panels.append(
                Heatmap(
                    label(row),
                    values,
                    Axis("test length", tuple(map(float, shares)), "tokens"),
                    Axis("depth of the answer", depths, "0 to 1"),
                    "magnitude",
                    "share right",
                    limit=1.0,
                )
            )
    if not panels:
        return None
    found = [p.name for p in panels if bool((p.values.nan_to_num(1.0) >= EVERYWHERE).all())]
    missed = [f"{p.name} ({1 - float(p.values[-1].nanmean()):.1%})" for p in panels if p.name not in found]
    rest = f"; missed at {result.longest} tokens, averaged over depths, by {together(missed)}" if missed else ""
    return View(
        f"{heading(result.name)}: found at every depth by {together(found or ['none'])}{rest}", tuple(panels)
    )


def _mean(row: Row, length: int, measure: str) -> Tensor | None:
    """Return the ``detail`` of a measure's cells, such as the loss by position, averaged over seeds; None if no run
    has such a cell."""
    details = [cell.detail for run in row.runs if (cell := run.cell(length, measure))]
    return torch.tensor(details).mean(0) if details else None


def over_steps(task: str, plans: Sequence[Plan], curves: Mapping[str, LossCurve]) -> View | None:
    """Draw the training losses, validation losses and gradient norms of a task's plans, averaged over seeds.

    The view has one line per encoding or, in a study with axes, one line per encoding and combination of axis
    values. ``curves`` maps plan ids to losses, and may lack plans whose run has not begun. Return None if no run
    has trained for enough steps to draw one point of its line; see ``POINTS``.
    """
    begun = [plan for plan in plans if plan.id in curves and curves[plan.id].losses]
    width = max(1, max((plan.steps for plan in begun), default=0) // POINTS)
    training = _over_steps(
        "training loss", "nats per target", begun, lambda plan: _means(curves[plan.id].losses, width)
    )
    if not training:
        return None
    return View(
        f"{heading(task)}: training",
        (
            *training,
            *_over_steps("validation loss", "nats per target", begun, lambda plan: curves[plan.id].validation),
            *_over_steps(
                "gradient norm", "before clipping", begun, lambda plan: _means(curves[plan.id].norms, width)
            ),
        ),
    )


def _over_steps(
    name: str, unit: str, plans: Sequence[Plan], values: Callable[[Plan], Sequence[tuple[float, float]]]
) -> tuple[Lines, ...]:
    """Draw one line per encoding and combination of axis values. ``values`` returns a plan's pairs of step and
    value; these values are averaged over the seeds that reached each step."""
    by_plan = {plan.id: dict(values(plan)) for plan in plans}
    steps = sorted({step for pairs in by_plan.values() for step in pairs})
    lines = tuple(
        Line(
            style(encoding).label + (f" ({at})" if at else ""),
            torch.tensor([[by_plan[plan.id].get(step, math.nan) for step in steps] for plan in seeds]).nanmean(0),
            encoding,
        )
        for (encoding, at), seeds in by_setting(plans).items()
    )
    return (Lines(name, lines, Axis("step", tuple(steps), "steps"), name, unit),) if steps else ()


def _means(values: Sequence[float], width: int) -> list[tuple[float, float]]:
    """Return means over ``width`` steps, each paired with the middle of its steps."""
    full = len(values) // width
    means = torch.tensor(values[: full * width]).reshape(full, width).mean(1).tolist()
    return [(width * (i + 0.5), mean) for i, mean in enumerate(means)]
