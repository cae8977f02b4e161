"""retrieval: asks a pretrained model for what is hidden in a long text, by method, length and depth.

A haystack is the text with the nine sentences of a task in it, as ``forced_choice`` lays them out. After it the
model is asked one question at a time. The other answers lie in the same haystack, so that having seen one is not
enough, and one pass over a long text serves every question.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.extend.extend import Request
from posenc.workbench.extend.forced_choice import Question, Sheet
from posenc.workbench.extend.methods import Method
from posenc.workbench.extend.models import LanguageModel, StudyModel
from posenc.workbench.extend.scoring import Read, Scoring, ScoringJob, score_texts
from posenc.workbench.run.checkpoint import FOLDER
from posenc.workbench.run.job import Launcher
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.statistics import Interval, paired
from posenc.workbench.tasks.text import Source, Text

if TYPE_CHECKING:  # which needs transformers
    from posenc.integrations.huggingface.load import Pretrained


@dataclass(frozen=True)
class Retrieval:
    """Which questions of a task were answered right, under every method that needs no fine-tune.

    Args:
        lengths: of haystack and question together, ascending; the trained length is among them.
        correct: whether the right answer was the likeliest; the last axis follows ``depths``.
        task: its name.
    """

    model: str
    original_length: int
    methods: tuple[Method, ...]
    lengths: tuple[int, ...]
    correct: Bool[Tensor, "methods lengths haystacks depths"]
    task: str = "needle"

    @property
    def chance(self) -> float:
        """The share that a model gets right which ignores the text."""
        return Sheet(self.task, 0).chance

    @property
    def depths(self) -> tuple[float, ...]:
        """Of the sentences that are asked for."""
        return Sheet(self.task, 0).depths

    def to_baseline(self, method: int, length: int) -> Interval:
        """The share right minus the unscaled model's at its trained length, paired over haystacks."""
        plain = next(i for i, m in enumerate(self.methods) if m.name == "none")
        trained = self.correct[plain, self.lengths.index(self.original_length)]
        ours, theirs = (each.double().mean(1).tolist() for each in (self.correct[method, length], trained))
        return paired(ours, theirs)


def reader(model: LanguageModel, tasks: Sequence[str]) -> "Pretrained":
    """The model as one that can be asked; refused before anything long runs.

    Raises:
        InvalidArgument: a model that compare trained, or a trained length without room for the sentences.
        StudyError: a tokenizer that does not tell the answers apart.
    """
    if isinstance(model, StudyModel):
        raise InvalidArgument(
            f"--tasks asks in words, and {model.name} reads {model.unit}s after a minute of training: pass a "
            "Hugging Face folder or a .gguf file, or measure small models with posenc compare --tasks needle"
        )
    for task in tasks:
        words = Sheet(task, 0).length(model)
        if 4 * words > model.original_length:
            raise InvalidArgument(
                f"--tasks {task} hides {words} {model.unit}s in half the trained length of {model.name}, "
                f"{model.original_length // 2}, and they may fill half of it at most; leave it out"
            )
    return model


def spans(original_length: int, length: int) -> tuple[int, ...]:
    """The lengths that are asked at: half the trained one, itself, and doubled on to ``length``."""
    doubled = [original_length // 2, original_length]
    while 2 * doubled[-1] < length:
        doubled.append(2 * doubled[-1])
    return (*doubled, length)


def work(original_length: int, request: Request) -> int:
    """Tokens that ``retrieve`` reads at most, for a progress bar."""
    per_haystack = sum(spans(original_length, request.length))
    return sum(m.scaling is not None for m in request.methods) * request.documents * per_haystack


def retrieve(
    model: "Pretrained",
    data: bytes,
    text: Text,
    request: Request,
    ledger: Ledger,
    launcher: Launcher,
    read: Read = lambda tokens: None,
    task: str = "needle",
) -> Retrieval:
    """Ask for what the ledger does not hold yet, and gather everything.

    Raises:
        StudyError: the text is shorter than one haystack, or memory is too small for its keys and values.
    """
    lengths = spans(model.original_length, request.length)
    model.check_memory(lengths[-1], cached=True)
    tokens = model.encode(data)
    count = min(request.documents, len(tokens) // lengths[-1])
    if count < 1:
        raise StudyError(
            f"text {text.name!r} has {len(tokens)} {model.unit}s; one haystack of {lengths[-1]} needs as many: "
            "pass a longer --text or a smaller --to"
        )
    methods = tuple(m for m in request.methods if m.scaling is not None)
    sheets = [Sheet(task, number) for number in range(count)]
    folder = ledger.folder.resolve() / FOLDER

    def job(method: Method, length: int, sheet: Sheet) -> ScoringJob:
        questions = sheet.questions(model)
        wording = f"{text.sha256} {sheet.sentences} {questions} {model.beginning}"
        plan = Scoring(
            model=model.identity,
            method=f"{task} {method.name}",
            scaling=method.values,
            text_sha256=hashlib.sha256(wording.encode()).hexdigest(),
            documents=(sheet.number,),
            length=length,
            buckets=len(questions),
            dtype=request.dtype,
            device=request.device,
        )
        hidden = sheet.haystack(model, tokens, length)
        rows = partial(margins, method=method, haystack=hidden, length=length, questions=questions)
        return ScoringJob(plan, Source(), folder, model, method, rows)

    jobs = [[[job(m, n, sheet) for sheet in sheets] for n in lengths] for m in methods]
    runs = score_texts([each for of_m in jobs for of_n in of_m for each in of_n], ledger, launcher, read)
    rows = torch.tensor([[[runs[j.plan].cells[0].detail for j in of_n] for of_n in of_m] for of_m in jobs])
    return Retrieval(model.name, model.original_length, methods, lengths, rows > 0, task)


def margins(
    model: LanguageModel,
    tick: Callable[[float], None],
    state: Callable[[int], Path],
    *,
    method: Method,
    haystack: Int[Tensor, " T"],
    length: int,
    questions: Sequence[Question],
) -> list[list[float]]:
    """By depth, the nats by which the right answer is likelier than the best wrong one."""
    assert not isinstance(model, StudyModel)
    encoding = method.positions(model, length)
    rows = model.answers(haystack, [question.tokens for question in questions], encoding, tick, state(0))
    return [[question.margin(logits.double()) for question, logits in zip(questions, rows, strict=True)]]
