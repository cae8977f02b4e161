"""Runs one plan: builds the transformer, trains it, tests it at every length, and writes its weights."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from posenc.encodings import catalogue
from posenc.encodings.encoding import Encoding
from posenc.errors import PositionOutOfRange, StudyError
from posenc.workbench.custom_code import modules
from posenc.workbench.run.checkpoint import save_weights
from posenc.workbench.run.job import Job, Report, ignore_progress
from posenc.workbench.run.machine import hardware, trim, versions
from posenc.workbench.run.plan import NUMERICS, Cell, LossCurve, Plan, Run, custom_classes
from posenc.workbench.run.trainer import train
from posenc.workbench.run.transformer import Transformer, wide
from posenc.workbench.tasks import IGNORE, Batch, Task, Text
from posenc.workbench.tasks import task as task_named
from posenc.workbench.tasks.language import TARGETS

HELD_OUT = 8
"""The largest number of test sequences of the trained length from which a validation loss is computed."""
DEPTHS = 10
"""The number of equal parts of a sequence for which the accuracy by depth is reported."""
BUCKETS = 64
"""The number of neighbouring positions whose losses are averaged into one value of the loss by position."""


@dataclass(frozen=True, kw_only=True)
class TrainingJob(Job):
    """The job that trains one model and tests it."""

    plan: Plan

    @property
    def modules(self) -> tuple[Path, ...]:
        return modules(custom_classes(self.plan.encoding, self.plan.task)) if self.plan.source else ()

    def run(self, report: Report = ignore_progress) -> Run:
        """Train and test the model in this process, and write its weights to ``folder/<plan id>.safetensors``."""
        text = self.source.load() if self.source else None
        if text and text.sha256 != self.plan.text_sha256:
            raise StudyError(f"text {text.name!r} has changed since the study began; run the command again")
        state = self.folder / f"{self.plan.id}.state"
        model, run = train_and_test(self.plan, text, report, state)
        save_weights(model, state.with_suffix(".safetensors"))
        return run


def train_and_test(
    plan: Plan, text: Text | None, report: Report = ignore_progress, state: Path | None = None
) -> tuple[Transformer, Run]:
    """Build the transformer of a plan, train it on the plan's task and test it, without writing weights.

    The model is returned in evaluation mode. A run that was stopped early is not tested.
    """
    started, task = time.perf_counter(), task_of(plan, text)
    model = build(plan, task)
    curve = learn(model, task, plan, report, state)
    cells = () if curve.verdict else evaluate(model.eval(), task, plan.lengths, plan.test_count)
    run = Run(
        plan,
        cells,
        time.perf_counter() - started,
        sum(p.numel() for p in model.parameters()),
        curve.final_loss,
        versions=versions(),
        hardware=hardware(plan.device),
        verdict=curve.verdict,
    )
    return model.eval(), run


def task_of(plan: Plan, text: Text | None) -> Task:
    """Return the task of a plan for the plan's training and test lengths."""
    return task_named(plan.task, text, plan.lengths[-1], plan.train_length)


def encoding(plan: Plan) -> Encoding:
    """Create the encoding of a plan, and import its class if it is custom.

    If a scaling depends on the length of a request, training and all tests use the frequencies for the longest
    test. Frequencies that change during a request would not match the keys in the KV cache.

    Raises:
        StudyError: the plan was made with another version of posenc's computations (``NUMERICS``), in which
            defaults may differ.
    """
    if plan.numerics != NUMERICS:
        raise StudyError(
            f"{plan.name} was trained with version {plan.numerics} of posenc's computations, but this posenc has "
            f"version {NUMERICS}; run posenc compare again"
        )
    return catalogue.encoding(
        plan.encoding,
        width=plan.width,
        heads=plan.heads,
        head_dim=plan.head_dim,
        num_positions=plan.train_length,
        layers=plan.layers,
        total_length=plan.lengths[-1],
    )


def untrained(plan: Plan, task: Task, encoding: Encoding) -> Transformer:
    """Create the transformer of a plan for a task, with uninitialised weights."""
    return Transformer(plan, encoding, task.vocabulary, task.outputs, task.causal)


def build(plan: Plan, task: Task) -> Transformer:
    """Create a plan's transformer, with weights initialised from the plan's seed. Weights outside the encoding are
    the same for every encoding.
    """
    model = untrained(plan, task, encoding(plan)).initialise(plan.seed)
    return model.to(device=plan.device, dtype=getattr(torch, plan.dtype))


def learn(
    model: Transformer,
    task: Task,
    plan: Plan,
    report: Report,
    state: Path | None,
) -> LossCurve:
    """Train the model of a plan on its task, with the batches that the plan's seed determines."""
    forward: nn.Module = torch.compile(model) if plan.compile else model  # type: ignore[assignment]

    def portion(generator: torch.Generator) -> tuple[Tensor, int]:
        batch = task.train_batch(generator, plan.batch).on_axes(model.encoding.axes)
        return _loss(forward, batch.to(plan.device)), batch.tokens.numel()

    held_out = next(_batches(model, task, plan.train_length, HELD_OUT))
    return train(
        model,
        portion,
        plan,
        report,
        run=plan.id,
        steps=plan.steps,
        learning_rate=plan.learning_rate,
        seed=plan.seed,
        path=state,
        validate=partial(_loss, model, held_out),
    )


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    """Compute the cross-entropy in float32 or float64, because bfloat16 has only 8 bits of precision."""
    outputs, targets = model(batch.tokens, batch.positions).flatten(0, 1), batch.targets.flatten()
    return F.cross_entropy(outputs.to(wide(outputs.dtype)), targets, ignore_index=IGNORE)


def evaluate(model: Transformer, task: Task, lengths: tuple[int, ...], count: int) -> tuple[Cell, ...]:
    """Test the model at every length, and return the cells.

    If the encoding refuses a length, the cell for that length contains the reason. If a test's grid is larger than
    the training grid and the encoding can resize its learned position tables, the tables are resized.
    """
    test = _loss_cells if task.measure == "loss" else _accuracy_cells
    cells: list[Cell] = []
    with torch.inference_mode():
        for length in lengths:
            trim()  # tensors of another length fit badly into the gaps that earlier ones leave
            try:
                cells += test(model.enlarged(*task.places(length)), task, length, count)
            except PositionOutOfRange as refusal:
                cells.append(Cell(length, "refused", float("nan"), 0, note=str(refusal)))
    # A reader of the run may have neither the text from which these are computed nor the task's class.
    return (*cells, Cell(lengths[0], "chance", task.chance, 0), Cell(lengths[0], "gate", task.gate, 0))


def _loss_cells(model: Transformer, task: Task, length: int, count: int) -> list[Cell]:
    """Measure the loss on the targets common to the windows of all test lengths, on all targets, and by position.

    The common targets of one window are called a block. The loss on common targets is also stored for each block.
    Positions that a custom task does not score count in no mean.
    """
    losses, asked = map(
        torch.cat, zip(*(_losses(model, batch) for batch in _batches(model, task, length, count)), strict=True)
    )
    last = slice(-min(TARGETS, task.train_length), None)  # the targets that windows of every length have
    blocks = losses[:, last].sum(1) / asked[:, last].sum(1)
    cells = [
        Cell(length, "loss", float(blocks.mean()), int(asked[:, last].sum()), tuple(blocks.tolist())),
        Cell(
            length,
            "window_loss",
            float(losses.sum() / asked.sum()),
            int(asked.sum()),
            tuple((losses.sum(1) / asked.sum(1)).tolist()),
        ),
    ]
    if length % BUCKETS == 0:
        by_position = torch.div(
            *(each.unflatten(1, (-1, BUCKETS)).sum((0, 2)) for each in (losses, asked))
        ).tolist()
        cells.append(Cell(length, "loss_by_position", by_position[-1], int(asked.sum()), tuple(by_position)))
    return cells


def _losses(model: Transformer, batch: Batch) -> tuple[Float[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """Return the loss of each token, 0 where it is not scored, and whether it is scored. Rows are processed one at
    a time, because computing the loss of a row needs three times the memory of the row's logits."""
    rows = zip(model(batch.tokens, batch.positions).split(1), batch.targets.split(1), strict=True)
    losses = [F.cross_entropy(row.float().mT, targets, reduction="none") for row, targets in rows]
    return torch.cat(losses).double().cpu(), (batch.targets != IGNORE).cpu()


def _accuracy_cells(model: Transformer, task: Task, length: int, count: int) -> list[Cell]:
    """Measure the share of right answers overall, per sequence, and, if batches have depths (see ``Batch.depth``),
    by the depth of the answer."""
    shares: list[Tensor] = []
    depths: list[float] = []
    for batch in _batches(model, task, length, count):
        outputs = model(batch.tokens, batch.positions)
        asked = batch.targets != IGNORE
        right = (outputs.argmax(-1) == batch.targets) & asked & ~outputs.isnan().any(-1)
        shares.append((right.sum(1) / asked.sum(1)).cpu())
        depths += batch.depth
    share = torch.cat(shares).double()
    # Answers of one sequence are not independent, so intervals count sequences.
    cells = [Cell(length, "accuracy", float(share.mean()), len(share), tuple(share.tolist()))]
    if depths:
        tenth = (torch.tensor(depths) * DEPTHS).long().clamp(max=DEPTHS - 1)
        asked_for = torch.bincount(tenth, minlength=DEPTHS).double()
        by_depth = torch.bincount(tenth, weights=share, minlength=DEPTHS) / asked_for
        cells.append(Cell(length, "accuracy_by_depth", float(share.mean()), len(share), tuple(by_depth.tolist())))
    if not task.scores_every_answer:
        return cells
    exact = (share == 1).double()
    return [*cells, Cell(length, "exact_match", float(exact.mean()), len(exact), tuple(exact.tolist()))]


def _batches(model: Transformer, task: Task, length: int, count: int) -> Iterator[Batch]:
    """Yield the test batches on the model's device, with as many position axes as the encoding has."""
    for batch in task.test_batches(length, count):
        yield batch.on_axes(model.encoding.axes).to(model.embedding.weight.device)
