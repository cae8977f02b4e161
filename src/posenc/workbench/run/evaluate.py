"""Tests a trained transformer at every length: loss on fixed targets and by position, or accuracy by depth."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from posenc.errors import PositionOutOfRange
from posenc.workbench.run.machine import trim
from posenc.workbench.run.plan import Cell
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.tasks import IGNORE, Batch, Task
from posenc.workbench.tasks.language import TARGETS

DEPTHS = 10
"""Tenths of the sequence, by which accuracies are given."""
BUCKETS = 64
"""Positions of one bucket of the loss-by-position curve."""


def evaluate(model: Transformer, task: Task, lengths: tuple[int, ...], count: int) -> tuple[Cell, ...]:
    """The cells of every length; a length that the encoding refuses leaves a cell that says why.

    For a grid larger than the trained one, tables that can be resized are.
    """
    test = _loss_cells if task.measure == "loss" else _accuracy_cells
    cells: list[Cell] = []
    with torch.inference_mode():
        for length in lengths:
            trim()  # tensors of another length fit badly between what is left of those before
            try:
                cells += test(model.enlarged(*task.places(length)), task, length, count)
            except PositionOutOfRange as refusal:
                cells.append(Cell(length, "refused", float("nan"), 0, note=str(refusal)))
    # A reader of the run may have neither the text that both come from, nor the task's class.
    return (*cells, Cell(lengths[0], "chance", task.chance, 0), Cell(lengths[0], "gate", task.gate, 0))


def _loss_cells(model: Transformer, task: Task, length: int, count: int) -> list[Cell]:
    """Fixed targets (with the loss of each block), whole windows, and the loss by position."""
    losses = torch.cat([_losses(model, batch) for batch in _batches(model, task, length, count)])
    blocks = losses[:, -TARGETS:].mean(1)
    cells = [
        Cell(length, "loss", float(blocks.mean()), blocks.numel() * TARGETS, tuple(blocks.tolist())),
        Cell(length, "window_loss", float(losses.mean()), losses.numel(), tuple(losses.mean(1).tolist())),
    ]
    if length % BUCKETS == 0:
        by_position = losses.unflatten(1, (-1, BUCKETS)).mean((0, 2)).tolist()
        cells.append(Cell(length, "loss_by_position", by_position[-1], losses.numel(), tuple(by_position)))
    return cells


def _losses(model: Transformer, batch: Batch) -> Float[Tensor, "b n"]:
    """Of each token, a row at a time: a loss takes the logits three times, and those of a batch fill memory."""
    rows = zip(model(batch.tokens, batch.positions).split(1), batch.targets.split(1), strict=True)
    losses = [F.cross_entropy(row.float().mT, targets, reduction="none") for row, targets in rows]
    return torch.cat(losses).double().cpu()


def _accuracy_cells(model: Transformer, task: Task, length: int, count: int) -> list[Cell]:
    """Share of right answers (with right or wrong for each sequence) and, where it applies, by depth."""
    shares: list[Tensor] = []
    depths: list[float] = []
    for batch in _batches(model, task, length, count):
        outputs = model(batch.tokens, batch.positions)
        asked = batch.targets != IGNORE
        right = (outputs.argmax(-1) == batch.targets) & asked & ~outputs.isnan().any(-1)
        shares.append((right.sum(1) / asked.sum(1)).cpu())
        depths += batch.depth
    share = torch.cat(shares).double()
    # Copied tokens of one sequence stand or fall together, so the sequence is the unit that intervals count.
    cells = [Cell(length, "accuracy", float(share.mean()), len(share), tuple(share.tolist()))]
    if depths:
        tenth = (torch.tensor(depths) * DEPTHS).long().clamp(max=DEPTHS - 1)
        asked_for = torch.bincount(tenth, minlength=DEPTHS).double()
        by_depth = torch.bincount(tenth, weights=share, minlength=DEPTHS) / asked_for
        detail = tuple(by_depth.tolist())
        cells.append(Cell(length, "accuracy_by_depth", float(share.mean()), len(share), detail))
    if not task.scores_every_answer:
        return cells
    exact = (share == 1).double()
    return [*cells, Cell(length, "exact_match", float(exact.mean()), len(exact), tuple(exact.tolist()))]


def _batches(model: Transformer, task: Task, length: int, count: int) -> Iterator[Batch]:
    """The test's batches for the model's axes, on its device."""
    for batch in task.test_batches(length, count):
        yield batch.on_axes(model.encoding.axes).to(model.embedding.weight.device)
