"""retrieval: asks a pretrained model for numbers hidden in a long text, by method, length and depth.

A haystack is the text with a sentence such as "The secret number of Lima is 1739." at each of nine depths, each
sentence with another place and number. After it the model is asked for one place at a time, and is right
when that place's number is likelier than the other eight. They lie in the same haystack, so that having seen a
number is not enough, and one pass over a long text serves every depth.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.extend.extend import Request
from posenc.workbench.extend.methods import Method
from posenc.workbench.extend.models import LanguageModel, StudyModel
from posenc.workbench.extend.scoring import Read, Scoring, ScoringJob, score_texts
from posenc.workbench.run.checkpoint import FOLDER
from posenc.workbench.run.job import Launcher
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.tasks.text import Source, Text

if TYPE_CHECKING:  # which needs transformers
    from posenc.integrations.huggingface.load import Pretrained

SENTENCE = "\nThe secret number of {place} is {number}.\n"
PLACES = ("Lima", "Oslo", "Cairo", "Quito", "Hanoi", "Turin", "Dakar", "Perth", "Minsk")
NUMBERS = ("1739", "2861", "3508", "4172", "5946", "6283", "7415", "8097", "9620")
"""No two begin alike: the likelihood of the first token of the answer ranks them, as decoding would that may say
nothing else."""
COUNT = len(NUMBERS)
CHANCE = 1 / COUNT
"""What a model gets that ignores the haystack: it prefers one number, which is right for one place in nine."""
DEPTHS = tuple(i / (COUNT - 1) for i in range(COUNT))
"""Of the text before a needle, the share; 0 is the beginning, 1 just before the question."""


@dataclass(frozen=True)
class Retrieval:
    """Which needles were found, under every method that needs no fine-tune.

    Args:
        lengths: of haystack and question together, ascending; the trained length is among them.
        correct: whether the right number was the likeliest; the last axis follows ``DEPTHS``.
    """

    model: str
    original_length: int
    methods: tuple[Method, ...]
    lengths: tuple[int, ...]
    correct: Bool[Tensor, "methods lengths haystacks depths"]


def reader(model: LanguageModel) -> "Pretrained":
    """The model as one that can be asked; refused before anything long runs.

    Raises:
        InvalidArgument: a model that compare trained, or a trained length without room for the needles.
        StudyError: a tokenizer that does not tell the numbers apart.
    """
    if isinstance(model, StudyModel):
        raise InvalidArgument(
            f"--needle asks in words, and {model.name} reads {model.unit}s after a minute of training: pass a "
            "Hugging Face folder or a .gguf file, or measure small models with posenc compare --tasks needle"
        )
    questions, _ = _questions(model)
    words = sum(map(len, _needles(model, 0))) + max(map(len, questions))
    if 4 * words > model.original_length:
        raise InvalidArgument(
            f"--needle hides {words} {model.unit}s in half the trained length of {model.name}, "
            f"{model.original_length // 2}, and they may fill half of it at most; leave --needle out"
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
    grid = _Grid(model, text, tokens, request, ledger, *_questions(model))
    methods = tuple(m for m in request.methods if m.scaling is not None)
    every = [[[grid.plan(m, n, i) for i in range(count)] for n in lengths] for m in methods]
    jobs = [grid.job(m, n, i) for m in methods for n in lengths for i in range(count)]

    runs = score_texts(jobs, ledger, launcher, read)
    margins = torch.tensor([[[runs[plan].cells[0].detail for plan in of_n] for of_n in of_m] for of_m in every])
    return Retrieval(model.name, model.original_length, methods, lengths, margins > 0)


def _questions(model: "Pretrained") -> tuple[list[Tensor], Int[Tensor, "places numbers"]]:
    """What asks for each place, and the token that each number begins with after it."""
    asked, firsts = [], []
    for place in PLACES:
        sentences = [model.encode(SENTENCE.format(place=place, number=n).encode()).tolist() for n in NUMBERS]
        columns = list(zip(*sentences, strict=False))
        start = next((i for i, column in enumerate(columns) if len(set(column)) > 1), None)
        if start is None or len(set(columns[start])) < COUNT:
            raise StudyError(f"the tokenizer of {model.name} does not tell numbers apart; leave --needle out")
        asked.append(torch.tensor(sentences[0][:start]))
        firsts.append(columns[start])
    return asked, torch.tensor(firsts)


def _hidden(haystack: int) -> tuple[list[int], list[int]]:
    """Which place and which number lie at each depth.

    Over nine haystacks every place and every number is once at every depth, and no pair of them meets twice.
    """
    places = [(depth + haystack) % COUNT for depth in range(COUNT)]
    return places, [(2 * depth + 4 * haystack) % COUNT for depth in range(COUNT)]


def _needles(model: "Pretrained", haystack: int) -> list[Int[Tensor, " n"]]:
    """The sentences of a haystack as tokens, in the order of their depths."""
    pairs = zip(*_hidden(haystack), strict=True)
    return [model.encode(SENTENCE.format(place=PLACES[p], number=NUMBERS[n]).encode()) for p, n in pairs]


@dataclass(frozen=True)
class _Grid:
    """The jobs of one retrieval: every haystack of every length under every method."""

    model: "Pretrained"
    text: Text
    tokens: Int[Tensor, " n"]
    request: Request
    ledger: Ledger
    questions: list[Tensor]
    firsts: Int[Tensor, "places numbers"]

    def plan(self, method: Method, length: int, haystack: int) -> Scoring:
        wording = f"{self.text.sha256} {SENTENCE} {PLACES} {NUMBERS}"
        return Scoring(
            model=self.model.identity,
            method=f"needle {method.name}",
            scaling=method.values,
            text_sha256=hashlib.sha256(wording.encode()).hexdigest(),
            documents=(haystack,),
            length=length,
            buckets=COUNT,
            dtype=self.request.dtype,
            device=self.request.device,
        )

    def job(self, method: Method, length: int, haystack: int) -> ScoringJob:
        plan = self.plan(method, length, haystack)
        places, numbers = _hidden(haystack)
        rows = partial(
            margins,
            method=method,
            haystack=self._haystack(haystack, length),
            length=length,
            questions=[self.questions[place] for place in places],
            firsts=self.firsts[places],
            numbers=numbers,
        )
        folder = self.ledger.folder.resolve() / FOLDER
        return ScoringJob(plan, Source(), folder, self.model, method.scaling, rows)

    def _haystack(self, number: int, length: int) -> Int[Tensor, " T"]:
        """A stretch of the text with the needles in it; with the longest question it has ``length`` tokens."""
        needles = _needles(self.model, number)
        room = length - sum(map(len, needles)) - max(map(len, self.questions))
        text = self.tokens[number * length : number * length + room]
        cuts = [0, *(round(depth * room) for depth in DEPTHS)]
        pieces = [text[cuts[i] : cuts[i + 1]] for i in range(COUNT)]
        return torch.cat([part for pair in zip(pieces, needles, strict=True) for part in pair])


def margins(
    model: LanguageModel,
    tick: Callable[[float], None],
    state: Callable[[int], Path],
    *,
    method: Method,
    haystack: Int[Tensor, " T"],
    length: int,
    questions: list[Tensor],
    firsts: Int[Tensor, "depths numbers"],
    numbers: list[int],
) -> list[list[float]]:
    """By depth, the nats by which the right number is likelier than the best wrong one."""
    assert not isinstance(model, StudyModel)
    encoding = model.with_scaling(method.scaling, length)
    logits = model.answers(haystack, questions, encoding, tick, state(0))
    likely, right = logits.double().gather(1, firsts), torch.tensor(numbers)[:, None]
    row: list[float] = (likely.gather(1, right)[:, 0] - likely.scatter(1, right, -torch.inf).amax(1)).tolist()
    return [row]
