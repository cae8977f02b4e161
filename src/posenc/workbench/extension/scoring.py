"""The plan and the job for scoring documents with one method, optionally after a fine-tune."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from posenc.errors import StudyError
from posenc.positions import pose
from posenc.workbench.extension.methods import Method
from posenc.workbench.extension.models import LanguageModel, Tick, part_of
from posenc.workbench.launch.launcher import carry_out
from posenc.workbench.run.checkpoint import complete, load_weights, save_weights
from posenc.workbench.run.job import Job, Launcher, Progress, Report, ignore_progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.machine import hardware, versions
from posenc.workbench.run.plan import Cell, Identified, Run
from posenc.workbench.run.settings import Training
from posenc.workbench.run.trainer import train

TUNE_TOKENS = 1024
"""The largest number of tokens per step of a fine-tune, unless a single window is longer."""
CONSTANT = Training(schedule="constant", warm_up=0.0)
"""The training settings of a fine-tune, with a constant learning rate."""

Read = Callable[[float], None]
"""A callback that receives the number of tokens read since its last call."""
Window: TypeAlias = tuple[Int[Tensor, " n"], int]
"""The tokens of one forward pass, and how many of the last targets are scored."""


@dataclass(frozen=True, kw_only=True)
class Scoring(Identified):
    """The plan for scoring documents with one method: all settings and inputs that determine the losses.

    Args:
        model: the model's ``identity``, a hash that identifies its weights.
        method: name of the method; ``"cut"`` is the unchanged model on truncated text.
        scaling: the method's remapping, or its scaling's values as JSON; see ``Method.values``.
        text_sha256: hash of the text that contains the documents.
        documents: indices of the documents.
        length: number of scored targets in a document, which are all tokens except the first.
        buckets: number of buckets per document; losses are averaged within a bucket.
        dtype, device: dtype and device of weights and activations.
        steps, span: training steps and window length of the fine-tune before scoring; 0 without a fine-tune.
        positions: how positions are set in the fine-tune: ``"counted"`` (0, 1, 2, …), or ``"pose"`` for random
            positions below ``length``.
        cut: number of context tokens when the tuned model scores the last buckets of each document a second time,
            on truncated documents; 0 without a fine-tune.
        seed: seed for drawing the fine-tune's windows and random positions; 0 without a fine-tune.
    """

    kind: ClassVar[str] = "scoring"
    model: str
    method: str
    scaling: str
    text_sha256: str
    documents: tuple[int, ...]
    length: int
    buckets: int
    dtype: str
    device: str = "cpu"
    steps: int = 0
    span: int = 0
    positions: str = "counted"
    cut: int = 0
    seed: int = 0

    @property
    def contexts(self) -> tuple[int, ...]:
        """The largest number of context tokens that a target has: first in full documents, then in truncated
        documents if these are scored too."""
        return (self.length, self.cut) if self.cut else (self.length,)

    @property
    def name(self) -> str:
        tuned = f" after {self.steps} steps" if self.steps else ""
        return f"{self.method}{tuned}, document {', '.join(map(str, self.documents))}"

    @property
    def work(self) -> float:
        """The number of tokens that are read for scoring and for the fine-tune."""
        return self.length * len(self.documents) * len(self.contexts) + self.steps * batch(self.span) * self.span


def batch(span: int) -> int:
    """Return the number of windows per step of a fine-tune."""
    return max(1, TUNE_TOKENS // span) if span else 0


@dataclass(frozen=True, kw_only=True)
class ScoringJob(Job):
    """A scoring plan with its model and the function that computes the values to store.

    Args:
        rows: a function of the model and a progress callback. The function returns one row of numbers per document
            for the first of the plan's ``contexts``, then one row per document for the second context, if any. The
            numbers are losses. In a job that picks key tokens, they are instead 1 for each key token and 0 for each
            other token.
        practice: the tokens for the fine-tune, which do not overlap the documents; None without a fine-tune. The
            tuned weights are written to ``folder/<plan id>.safetensors``.
        width: the number of targets that one number of ``rows`` averages.
    """

    plan: Scoring
    model: LanguageModel
    method: Method
    rows: Callable[[LanguageModel, Tick], Sequence[Sequence[float]]]
    practice: Int[Tensor, " n"] | None = None
    width: int = 1

    @property
    def complete(self) -> bool:
        """Whether the weights of the fine-tune exist and are undamaged; True without a fine-tune."""
        return self.practice is None or complete(self.folder / f"{self.plan.id}.safetensors")

    def run(self, report: Report = ignore_progress) -> Run:
        """Score the documents in this process, and return a run with one cell per context length and document. The
        cell's ``detail`` has the values from ``rows``.
        """
        started, plan = time.perf_counter(), self.plan

        def tick(share: float) -> None:
            report(Progress(plan.id, share * plan.length))

        model = self.model if self.practice is None else self._tuned(self.practice, report)
        cells = tuple(
            Cell(context, f"document {number}", sum(row) / len(row), len(row) * self.width, tuple(row))
            for (context, number), row in zip(
                product(plan.contexts, plan.documents), self.rows(model, tick), strict=True
            )
        )
        return Run(
            plan,
            cells,
            time.perf_counter() - started,
            parameters=0,
            final_loss=0.0,
            versions=versions(),
            hardware=hardware(plan.device),
        )

    def _tuned(self, practice: Int[Tensor, " n"], report: Report) -> LanguageModel:
        """Return a copy of the model, fine-tuned with the method. Every method trains on the same windows of text.

        If an interrupted job has left its fine-tuned weights, they are loaded instead.
        """
        plan, model = self.plan, self.model.copied(self.plan.id)
        if self.complete:
            model.model.load_state_dict(load_weights(self.folder.parent, plan))
            return model
        rows, span = batch(plan.span), plan.span
        state = self.folder / f"{plan.id}.state"

        def portion(generator: torch.Generator) -> tuple[Tensor, int]:
            starts = torch.randint(len(practice) - span, (rows,), generator=generator)
            windows = practice[starts[:, None] + torch.arange(span + 1)].long()
            drawn = pose(span, plan.length, generator=generator) if plan.positions == "pose" else None
            logits = model.logits(windows[:, :-1], drawn).flatten(0, 1)
            return F.cross_entropy(logits, windows[:, 1:].flatten().to(logits.device)), rows * span

        model.model.train()
        with model.placed(self.method.positions(model, plan.length)):
            training = train(
                model.model,
                portion,
                CONSTANT,
                report,
                run=plan.id,
                steps=plan.steps,
                learning_rate=model.learning_rate,
                seed=plan.seed,
                path=state,
                work=rows * span,
            )
        if training.verdict:
            state.unlink(missing_ok=True)
            raise StudyError(f"the fine-tune with {plan.method} {training.verdict}; use --finetune 0")
        save_weights(model.model, state.with_suffix(".safetensors"))
        model.model.eval()
        return model


def scored(
    model: LanguageModel,
    tick: Tick,
    *,
    method: Method,
    documents: list[list[Window]],
    width: int,
) -> list[list[float]]:
    """Score documents window by window with a method, and average the losses in buckets of ``width`` positions."""
    rows: list[list[float]] = []
    for windows in documents:
        progress, encoding = part_of(tick, 1 / len(windows)), method.positions(model, len(windows[0][0]) - 1)
        losses = [model.losses(tokens, encoding, progress)[-last:] for tokens, last in windows]
        rows.append(torch.cat(losses).double().unflatten(0, (-1, width)).mean(1).tolist())
    return rows


def score_texts(jobs: Sequence[ScoringJob], ledger: Ledger, launcher: Launcher, read: Read) -> dict[Any, Run]:
    """Return the runs of these jobs, by plan. A job is run if the ledger lacks its run or its weights are missing.

    Raises:
        StudyError: a job failed; the runs of all other jobs are in the ledger.
    """
    known = ledger.ids()
    missing = [job for job in jobs if job.plan.id not in known or not job.complete]
    read(sum(job.plan.work for job in jobs if job not in missing))
    if failures := carry_out(missing, launcher, ledger, lambda progress: read(progress.work)):
        raise StudyError(f"{failures[0].plan.name}: {failures[0].reason}; finished scores are kept")
    return {job.plan: run for job in jobs if (run := ledger.find(job.plan)) is not None}
