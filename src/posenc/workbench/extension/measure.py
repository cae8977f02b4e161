"""Scores long documents with every length-extension method, and collects the loss at every position.

All methods are scored on the same targets of the same documents, so differences between methods are paired. One
forward pass over a document gives the loss at every position, because a causal model never attends to later
tokens. The unchanged model and every tuned model also score the last targets of each document with only as much
context as in training. A method must beat these baselines to be chosen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import at_least, one_of
from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.extension import longppl
from posenc.workbench.extension.decision import Candidate, Extension
from posenc.workbench.extension.methods import Method
from posenc.workbench.extension.models import LanguageModel, StudyModel
from posenc.workbench.extension.scoring import Read, Scoring, ScoringJob, Window, score_texts, scored
from posenc.workbench.run.checkpoint import FOLDER
from posenc.workbench.run.job import Launcher
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.machine import check_device
from posenc.workbench.run.plan import Cell, Run
from posenc.workbench.tasks.text import Text

QUARTERS = 4
"""The number of position buckets in the trained length; buckets past the trained length have the same width."""
TUNE_LENGTHS = 4
"""The length of the longest windows in a fine-tune, as a multiple of the trained length."""


@dataclass(frozen=True)
class Request:
    """The settings of a measurement.

    Args:
        length: number of targets per document; ``measure`` rounds it down with ``in_buckets``.
        documents: largest number of documents to score; a short text may contain fewer.
        methods: the methods to measure. One of them must be the unchanged model (``"none"`` or ``"own"``).
        finetune: training steps of a fine-tune; 0 for none.
        dtype, device: dtype and device of weights and activations. Scores in the ledger are reused only if
            both are the same.
        positions: how positions are set in a fine-tune. ``"counted"`` uses positions 0, 1, 2, … in windows of up
            to four times the trained length. ``"pose"`` draws random positions below ``length`` for windows of the
            trained length.
        seed: seed for drawing the windows of a fine-tune and their random positions.

    Raises:
        InvalidArgument: a setting is invalid for every model. ``measure`` refuses settings that are invalid only
            for the model that it measures.
    """

    length: int
    documents: int
    methods: tuple[Method, ...]
    finetune: int = 0
    dtype: str = "float32"
    device: str = "cpu"
    positions: str = "counted"
    seed: int = 0

    def __post_init__(self) -> None:
        check_device(self.device)
        one_of("dtype", self.dtype, ("float32", "bfloat16"))
        one_of("positions", self.positions, ("counted", "pose"))
        at_least(1)(self.documents, "documents")
        at_least(0, "; use 0 for no fine-tune")(self.finetune, "finetune")
        if self.finetune and self.dtype != "float32":
            raise InvalidArgument(
                f"dtype={self.dtype!r} would round a fine-tune's updates to zero; use --dtype float32"
            )


def measure(
    model: LanguageModel,
    data: bytes,
    text: Text,
    request: Request,
    ledger: Ledger,
    launcher: Launcher,
    read: Read = lambda tokens: None,
    evaluator: longppl.Evaluator | None = None,
    expect: Read = lambda tokens: None,
) -> Extension:
    """Score the documents that have no scores in the ledger, and collect all scores.

    A study's model is fine-tuned on the study's training text. Other models are fine-tuned on the part of the text
    that follows the documents. With an ``evaluator``, the key tokens for LongPPL and the loss of each token are
    stored too. ``expect`` is called once with the total number of tokens to read; then ``read`` is called
    repeatedly with the number of tokens read since its last call.

    Raises:
        StudyError: the text is too short for one document, or the memory is too small for a document of this
            length.
        InvalidArgument: the length is not above the trained length, a setting needs a fine-tune but none is
            requested, or the evaluator cannot pick key tokens for this model.
    """
    length, width = in_buckets(request.length, model.original_length)
    _check(model, request, width, length)
    tokens = model.encode(data)
    documents = _cut(model, tokens, length, request.documents, text.name)
    folder = ledger.folder.resolve() / FOLDER
    grid = _Grid(model, text, request, folder, length, width, documents, evaluator is not None)
    untuned = [method for method in request.methods if method.scaling is not None]
    shots: dict[str, list[ScoringJob]] = {}
    for method in untuned:  # methods with the same frequencies share the jobs of the first
        shots.setdefault(method.frequencies(length), grid.zero_shot(method))
    practice = text.train if isinstance(model, StudyModel) else tokens[len(documents) * length + 1 :]
    tunings = [grid.tuning(method, practice) for method in (request.methods if request.finetune else ())]
    cuts = grid.cuts()
    marks = longppl.jobs(evaluator, model, data, documents, cuts[0].plan, folder) if evaluator else []
    jobs = [*chain.from_iterable(shots.values()), *tunings, *cuts, *marks]
    expect(sum(job.plan.work for job in jobs))
    runs = score_texts(jobs, ledger, launcher, read)
    curves = [grid.curve(method, _cells(runs, shots[method.frequencies(length)])) for method in untuned]
    curves += [grid.curve(job.method, runs[job.plan].cells, job.plan) for job in tunings]
    return Extension(
        model.name,
        model.unit,
        model.original_length,
        length,
        width,
        tuple(curves),
        _rows(_cells(runs, cuts)),
        text,
        request.finetune,
        runs=tuple(runs.values()),
        exhausted=len(tokens) - 1 < (len(documents) + 1) * length,
        identity=model.identity,
        positions=request.positions,
        key=_rows(_cells(runs, marks)).bool() if marks else None,
        evaluator=evaluator.as_json() if evaluator else {},
        held_out=isinstance(model, StudyModel),
    )


def in_buckets(length: int, original_length: int) -> tuple[int, int]:
    """Return the length rounded down to whole buckets of positions, and the width of a bucket."""
    width = max(1, original_length // QUARTERS)
    return length // width * width, width


def _check(model: LanguageModel, request: Request, width: int, length: int) -> None:
    """Refuse a request that this model cannot fulfil."""
    if length <= model.original_length:
        raise InvalidArgument(
            f"length {request.length} is not far enough past the trained length {model.original_length} of "
            f"{model.name}; use --to {model.original_length + width} or more"
        )
    tuned = [
        *["positions='pose'"] * (request.positions == "pose"),
        *(f"method {m.name!r}" for m in request.methods if m.scaling is None),
    ]
    if tuned and not request.finetune:
        raise InvalidArgument(f"{tuned[0]} requires a fine-tune; add --finetune STEPS")
    model.check_memory(length)


def _cells(runs: Mapping[Scoring, Run], jobs: Iterable[ScoringJob]) -> list[Cell]:
    """Return the only cell of each job's run, in the order of the jobs."""
    return [runs[job.plan].cells[0] for job in jobs]


def _rows(cells: Iterable[Cell]) -> Float[Tensor, "documents buckets"]:
    """Return the ``detail`` of each cell as a matrix with one row per document. The numbers are losses or, in cells
    that mark key tokens, 1 for each key token and 0 for each other token."""
    return torch.tensor([cell.detail for cell in cells], dtype=torch.float64)


def _cut(
    model: LanguageModel, tokens: Int[Tensor, " n"], length: int, documents: int, name: str
) -> list[Int[Tensor, " T+1"]]:
    """Cut documents with ``length`` targets each from the start of a text; no two documents share a target."""
    count = min(documents, (len(tokens) - 1) // length)
    if count < 1:
        raise StudyError(
            f"text {name!r} has {len(tokens)} {model.unit}s, but one document needs {length + 1}; use a "
            "smaller --to or a longer text"
        )
    return [tokens[i * length : (i + 1) * length + 1] for i in range(count)]


@dataclass(frozen=True)
class _Grid:
    """Creates the jobs that score every document with every method.

    Args:
        folder: the folder of training states and tuned weights.
        by_token: whether the loss of each token is stored.
    """

    model: LanguageModel
    text: Text
    request: Request
    folder: Path
    length: int
    width: int
    documents: list[Tensor]
    by_token: bool

    def curve(self, method: Method, cells: Sequence[Cell], plan: Scoring | None = None) -> Candidate:
        """Create the ``Candidate`` for a method. ``cells`` has one cell per document, with the losses on the full
        document. If losses on truncated documents were measured too, these cells are followed by a second set,
        again with one cell per document."""
        count, step = len(self.documents), self.width if self.by_token else 1
        rows = [_rows(cells[i : i + count]) for i in range(0, len(cells), count)]
        means = [losses.unflatten(1, (-1, step)).mean(2) for losses in rows]
        return Candidate(method, means[0], plan, rows[0] if self.by_token else None, *means[1:])

    def plan(self, method: Method, documents: tuple[int, ...], steps: int = 0) -> Scoring:
        longest = self.model.original_length * (TUNE_LENGTHS if self.request.positions == "counted" else 1)
        return Scoring(
            model=self.model.identity,
            method=method.name,
            scaling=method.values,
            text_sha256=self.text.sha256,
            documents=documents,
            length=self.length,
            buckets=self.length // (1 if self.by_token else self.width),
            dtype=self.request.dtype,
            device=self.request.device,
            steps=steps,
            span=min(self.length, longest) if steps else 0,
            positions=self.request.positions if steps else "counted",
            cut=self.model.original_length if steps else 0,
            seed=self.request.seed if steps else 0,
        )

    def zero_shot(self, method: Method) -> list[ScoringJob]:
        """Create one job per document, which scores it with a method, without a fine-tune."""
        return [
            self._job(self.plan(method, (i,)), method, [[(tokens, self.length)]])
            for i, tokens in enumerate(self.documents)
        ]

    def tuning(self, method: Method, practice: Int[Tensor, " n"]) -> ScoringJob:
        """Create the job that fine-tunes the model with a method, and then scores all documents, both in full and
        truncated."""
        plan = self.plan(method, tuple(range(len(self.documents))), self.request.finetune)
        if len(practice) <= plan.span:
            raise StudyError(
                f"text {self.text.name!r} leaves {len(practice)} {self.model.unit}s for the fine-tune, but a "
                f"window needs {plan.span}; use --finetune 0, fewer --documents or a longer text"
            )
        whole = [[(tokens, self.length)] for tokens in self.documents]
        return self._job(plan, method, [*whole, *map(self.last, self.documents)], practice)

    def cuts(self) -> list[ScoringJob]:
        """Create one job per document, which scores its last targets with only as much context as in training."""
        unchanged, windows = Method("cut", "cut", self.model.scaling), list(map(self.last, self.documents))
        return [
            self._job(replace(self.plan(unchanged, (i,)), buckets=len(last)), unchanged, [last])
            for i, last in enumerate(windows)
        ]

    def last(self, tokens: Int[Tensor, " T+1"]) -> list[Window]:
        """Return one window for each of the document's last buckets. The window has the bucket's last target and
        the ``original_length`` tokens before it.
        """
        context, buckets = self.model.original_length, self.length // self.width
        far = min(context // self.width, buckets - context // self.width)
        ends = range(len(tokens) - (far - 1) * self.width, len(tokens) + 1, self.width)
        return [(tokens[end - context - 1 : end], self.width) for end in ends]

    def _job(
        self, plan: Scoring, method: Method, documents: list[list[Window]], practice: Tensor | None = None
    ) -> ScoringJob:
        width = min(self.width, plan.length // plan.buckets)
        return ScoringJob(
            plan=plan,
            folder=self.folder,
            model=self.model,
            method=method,
            rows=partial(scored, method=method, documents=documents, width=width),
            practice=practice,
            width=width,
        )
