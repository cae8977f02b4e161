"""How a study's models learnt: every encoding's training loss, and how fast it read; also while runs go on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from posenc.pictures.numbers import count
from posenc.pictures.palette import style, token
from posenc.pictures.view import Axis, Line, Lines, View
from posenc.workbench.report.blocks import Block, Part, Row, Table, Words
from posenc.workbench.report.builder import embedded
from posenc.workbench.run.plan import LossCurve, Plan
from posenc.workbench.study.comparison import Outcome

POINTS = 50
"""Of a curve: each is the mean of as many steps as fit."""


def over_steps(task: str, plans: Sequence[Plan], curves: Mapping[str, LossCurve]) -> View:
    """The loss of the training steps of a task's plans, averaged over the seeds that have come as far, by encoding.

    ``curves`` are by plan's id; plans without one have not begun.
    """
    begun = [plan for plan in plans if plan.id in curves]
    width = max(1, max((plan.steps for plan in begun), default=0) // POINTS)
    points = max((len(curves[plan.id].losses) // width for plan in begun), default=0)
    lines = []
    for encoding in dict.fromkeys(plan.encoding for plan in begun):
        own = [_points(curves[plan.id], width, points) for plan in begun if plan.encoding == encoding]
        lines.append(Line(style(encoding).label, torch.stack(own).nanmean(0), encoding))
    centres = tuple(width * (i + 0.5) for i in range(points))
    panel = Lines("training loss", tuple(lines), Axis("step", centres, "steps"), "loss", "nats per target")
    return View(f"{task.capitalize()}: how each encoding learnt", (panel,))


def _points(curve: LossCurve, width: int, points: int) -> Tensor:
    """Means over ``width`` steps; no number where it has not come to yet."""
    whole = len(curve.losses) // width
    means = torch.tensor(curve.losses[: whole * width]).unflatten(0, (whole, width)).mean(1)
    return torch.cat((means, torch.full((points - whole,), torch.nan)))


def part(outcome: Outcome, folder: Path) -> tuple[Part, ...]:
    """The figures, written into ``folder`` too, and a table for the page; none where no step was told."""
    blocks: list[Block] = []
    for task in dict.fromkeys(plan.task for plan in outcome.plans):
        plans = [plan for plan in outcome.plans if plan.task == task and plan.id in outcome.curves]
        view = over_steps(task, plans, outcome.curves)
        if not view.panels[0].lines or not len(view.panels[0].lines[0].values):  # type: ignore[union-attr]
            continue
        caption = f"{task.capitalize()}: training loss, the mean over seeds."
        blocks.append(embedded(view, caption, f"{task}-steps", folder / "figures"))
        blocks.append(_table(task, plans, outcome.curves))
    told = "A loss that still falls at the last step says that more training would change the comparison."
    return (Part("How they learnt", "learnt", (Words(told, quiet=True), *blocks)),) if blocks else ()


def _table(task: str, plans: Sequence[Plan], curves: Mapping[str, LossCurve]) -> Table:
    """By encoding the last loss, how far its runs have come, and the tokens that they read in a second."""
    among = list(dict.fromkeys(plan.encoding for plan in plans))
    rows = []
    for encoding in among:
        own = [plan for plan in plans if plan.encoding == encoding]
        told = [curves[plan.id] for plan in own]
        done, asked = sum(len(curve.losses) for curve in told), sum(plan.steps for plan in own)
        last = fmean(fmean(curve.losses[-max(1, len(curve.losses) // 10) :]) for curve in told)
        rate = sum(curve.tokens for curve in told) / max(1e-9, sum(curve.seconds for curve in told))
        cells = (f"{last:.3f}", f"{count(done)} of {count(asked)}", count(round(rate)))
        rows.append(Row(style(encoding).label, tuple((cell, "") for cell in cells), "", token(encoding, among)))
    heads = ("encoding", "last loss", "steps", "tokens/s")
    return Table(
        f"{task}: nats per target over the last tenth of the steps, and what a run read", heads, tuple(rows)
    )
