"""extend: scores long documents under every method of extension, and gathers the loss at every position.

Every method reads the same documents and is scored on the same targets, so differences are paired. One pass over
a document gives the whole curve: a causal model's loss at position p is its loss with p tokens before it. Where
the trained window ends the fixed targets of the last bucket are scored once more by the unscaled model with the
last trained length of context alone: what extension has to beat.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.experiments.methods import Method
from posenc.workbench.experiments.models import LanguageModel, Ours, Tick
from posenc.workbench.experiments.scores import Job, Scores
from posenc.workbench.experiments.tune import TOKENS, tuned, tuned_identity
from posenc.workbench.tasks.text import Text

QUARTERS = 4
"""Buckets of the trained length; those beyond it are as wide."""
TUNE_LENGTHS = 4
"""A fine-tune reads windows of at most this many trained lengths."""

Progress = Callable[[float], None]
"""Called with the number of tokens just read."""


@dataclass(frozen=True)
class Curve:
    """A method's losses: a row per document, a column per bucket of positions; fine-tuned before or not."""

    method: Method
    tuned: bool
    losses: Float[Tensor, "documents buckets"]


@dataclass(frozen=True)
class Extension:
    """What was measured.

    Args:
        width: positions of one bucket; bucket i holds i·width … (i+1)·width − 1.
        curves: zero-shot first, then fine-tuned, in the order of the methods.
        window: per document, the loss on the targets of the last bucket with the trained length of context alone.
    """

    model: str
    unit: str
    original_length: int
    length: int
    width: int
    curves: tuple[Curve, ...]
    window: Float[Tensor, " documents"]
    text: Text
    finetune: int = 0

    @property
    def inside(self) -> int:
        """Buckets that lie within the trained length."""
        return self.original_length // self.width

    @property
    def far(self) -> int:
        """Buckets at the end that methods are judged by: a trained length of them, or all past it."""
        return min(self.inside, self.length // self.width - self.inside)


@dataclass(frozen=True)
class Request:
    """What to measure.

    Args:
        length: targets per document, brought down to a multiple of a quarter of the trained length.
        documents: how many; fewer where the text ends.
        methods: ``"none"`` among them.
        finetune: steps, 0 for none.
        dtype: of weights and activations, kept with the scores.
    """

    length: int
    documents: int
    methods: tuple[Method, ...]
    finetune: int = 0
    dtype: str = "float32"


def extend(
    model: LanguageModel,
    data: bytes,
    text: Text,
    request: Request,
    scores: Scores,
    progress: Progress = lambda tokens: None,
) -> Extension:
    """Score what ``scores`` does not hold yet, and gather everything.

    A fine-tune reads what the model was trained on where that is known, else the text after the documents.

    Raises:
        StudyError: the text is too short for one document, or memory for its length.
        InvalidArgument: a length within the trained one.
    """
    width = max(1, model.original_length // QUARTERS)
    length = request.length // width * width
    if length <= model.original_length:
        raise InvalidArgument(
            f"length {request.length} reaches no whole bucket of {width} positions past the trained "
            f"{model.original_length} of {model.name}; use --to {model.original_length + width} or more"
        )
    model.check_memory(length)
    tokens = model.encode(data)
    documents = _cut(model, tokens, length, request.documents, text.name)
    score = _Scorer(model, text, request, scores, length, width, progress)
    curves = [
        Curve(m, False, score.curve(model, model.identity, m, documents))
        for m in request.methods
        if m.schedule is not None
    ]
    if request.finetune:
        practice = text.train if isinstance(model, Ours) else tokens[len(documents) * length + 1 :]
        curves += [Curve(m, True, score.tuned_curve(m, documents, practice)) for m in request.methods]
    window = score.window(documents)
    used = model.original_length, length, width
    return Extension(model.name, model.unit, *used, tuple(curves), window, text, request.finetune)


def work(model: LanguageModel, request: Request, documents: int) -> int:
    """Tokens that ``extend`` reads at most, for a progress bar."""
    zero_shot = sum(m.schedule is not None for m in request.methods)
    tuned_too = len(request.methods) if request.finetune else 0
    tuning = tuned_too * request.finetune * TOKENS
    return documents * (request.length * (zero_shot + tuned_too) + model.original_length) + tuning


def _cut(
    model: LanguageModel, tokens: Int[Tensor, " n"], length: int, documents: int, name: str
) -> list[Int[Tensor, " T+1"]]:
    """The text's first documents of ``length`` targets, none sharing a target."""
    found = min(documents, (len(tokens) - 1) // length)
    if found < 1:
        raise StudyError(
            f"text {name!r} has {len(tokens)} {model.unit}s; one document of {length} needs {length + 1}: pass a "
            "longer --text or a smaller --to"
        )
    return [tokens[i * length : (i + 1) * length + 1] for i in range(found)]


@dataclass(frozen=True)
class _Scorer:
    model: LanguageModel
    text: Text
    request: Request
    scores: Scores
    length: int
    width: int
    progress: Progress

    def job(self, identity: str, method: str, schedule: str, document: int) -> Job:
        buckets = self.length // self.width
        sha, dtype = self.text.sha256, self.request.dtype
        return Job(identity, method, schedule, sha, document, self.length, buckets, dtype)

    def tick(self, tokens: int) -> Tick:
        """Shares of one pass over so many tokens, as progress in tokens."""
        return lambda share: self.progress(share * tokens)

    def curve(
        self, model: LanguageModel, identity: str, method: Method, documents: list[Tensor]
    ) -> Float[Tensor, "documents buckets"]:
        """The losses of one method, from the ledger where they are."""
        encoding = model.rescaled(method.schedule, self.length)
        rows = []
        for number, tokens in enumerate(documents):
            job = self.job(identity, method.name, method.values, number)
            row = self.scores.get(job)
            if row is None:
                started = time.perf_counter()
                losses = model.losses(tokens, encoding, self.tick(self.length))
                row = tuple(losses.double().unflatten(0, (-1, self.width)).mean(1).tolist())
                self.scores.add(job, row, time.perf_counter() - started)
            else:
                self.progress(self.length)
            rows.append(row)
        return torch.tensor(rows, dtype=torch.float64)

    def tuned_curve(
        self, method: Method, documents: list[Tensor], practice: Int[Tensor, " n"]
    ) -> Float[Tensor, "documents buckets"]:
        """The losses after a fine-tune, which is skipped where every document is scored already."""
        model = self.model
        steps, span = self.request.finetune, min(self.length, TUNE_LENGTHS * model.original_length)
        if len(practice) <= span:
            raise StudyError(
                f"text {self.text.name!r} leaves {len(practice)} {model.unit}s to tune on; windows of {span} need "
                "more: pass a longer --text, fewer --documents or --finetune 0"
            )
        identity = tuned_identity(model, method.name, method.values, steps, span)
        jobs = [self.job(identity, method.name, method.values, i) for i in range(len(documents))]
        if any(self.scores.get(job) is None for job in jobs):
            encoding = model.rescaled(method.schedule, self.length)
            model = tuned(model, encoding, practice, steps, span, identity, self.progress)
        return self.curve(model, identity, method, documents)

    def window(self, documents: list[Tensor]) -> Float[Tensor, " documents"]:
        """The last bucket's targets with the trained length of context, as the model is configured."""
        model = self.model
        own = Method("window", "trained length alone", model.schedule)
        encoding = model.rescaled(own.schedule, model.original_length)
        values = []
        for number, tokens in enumerate(documents):
            job = self.job(model.identity, own.name, own.values, number)
            row = self.scores.get(job)
            if row is None:
                started = time.perf_counter()
                tail = tokens[-model.original_length - 1 :]
                losses = model.losses(tail, encoding, self.tick(model.original_length))
                row = (float(losses[-self.width :].double().mean()),)
                self.scores.add(job, row, time.perf_counter() - started)
            else:
                self.progress(model.original_length)
            values.append(row[0])
        return torch.tensor(values, dtype=torch.float64)
