"""The task ``language``: predict the next byte of real text. Tests of every length score the same bytes, and longer
tests give the model more context before these bytes.

Test windows of every length end at the same positions in the validation text, and their last ``TARGETS`` bytes
(fewer if the trained length is shorter) are the fixed targets. Since all lengths have the same targets, any
difference in loss between two lengths comes from the model and not from the text. Papers report the mean
loss over all targets of a window instead. This mean is lower for longer windows even if the model does not use
distant context: the targets near the start of a window have little context, so their losses are high, and in a
longer window they are a smaller share of all targets.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import StudyError
from posenc.workbench.run.machine import trim
from posenc.workbench.tasks.task import Batch, Task, in_batches
from posenc.workbench.tasks.text import Text

TARGETS = 64


COUNTED = 2**22
"""The largest number of training tokens whose frequencies determine the chance level and the gate. These two
losses are measured on at most this many validation tokens."""


class Language(Task):
    """The next token of a text is predicted at every position.

    The chance level is the loss of a model that knows only how frequent each token is in the training part. The
    gate is the loss of a model that also knows how often one token follows another, or the chance level if that
    is lower.
    """

    question = "predict the next byte of real text: the same targets, with more and more context"
    measure: Literal["loss", "accuracy"] = "loss"
    train_length: int = 128
    steps: ClassVar[int] = 800
    batch: ClassVar[int] = 16
    learning_rate: ClassVar[float] = 8e-3
    reads_text: ClassVar[bool] = True

    def __init__(self, text: Text, longest: int, train_length: int | None = None) -> None:
        """``longest`` is the length of the longest test window; windows of all lengths end at the same
        positions."""
        self.text, unit = text, text.tokens.unit
        self.vocabulary = self.outputs = text.tokens.vocabulary
        self.train_length = length = train_length or type(self).train_length
        if len(text.train) <= length + 1:
            raise StudyError(
                f"text {text.name!r} has {len(text.train)} training {unit}s, but a window of {length} "
                f"needs more; pass a text with a few hundred thousand {unit}s"
            )
        if len(text.validation) < longest + TARGETS + 1:
            raise StudyError(
                f"text {text.name!r} has {len(text.validation)} validation {unit}s, but length {longest} "
                f"needs at least {longest + TARGETS + 1}; pass a longer text or smaller --lengths"
            )
        self.longest = longest
        self.chance = _token_loss(text)
        self.gate = min(self.chance, _pair_loss(text))
        trim()

    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        starts = torch.randint(len(self.text.train) - self.train_length, (size,), generator=generator)
        return _windows(self.text.train, starts, self.train_length)

    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        ends = _ends(self.text, self.longest, count)
        for some in ends.split(in_batches(length, len(ends))):
            yield _windows(self.text.validation, some - length - 1, length)


def _ends(text: Text, longest: int, count: int) -> Int[Tensor, " n"]:
    """Return the ends of ``count`` test windows, or of fewer windows if their fixed targets would overlap."""
    last, count = len(text.validation), min(count, blocks(text, longest))
    dtype = torch.float32 if last <= 2**24 else torch.float64  # float32 holds every integer up to 2^24
    return torch.linspace(longest + 1, last, count, dtype=dtype).long()


def blocks(text: Text, longest: int) -> int:
    """Return the largest number of windows of ``longest`` tokens whose fixed targets do not overlap."""
    return max(1, (len(text.validation) - longest - 1) // TARGETS + 1)


def _token_loss(text: Text) -> float:
    """Return the loss of a model that knows only the token frequencies of the training text, in nats per token."""
    counts = torch.bincount(text.train[:COUNTED].int(), minlength=text.tokens.vocabulary).double() + 1
    return float(-(counts / counts.sum()).log()[text.validation[:COUNTED].long()].mean())


def _pair_loss(text: Text) -> float:
    """Return the loss, in nats per token, of a model that predicts a token only from the token before it.

    The model counts how often each pair of tokens occurs in the training text. A trained model with a higher loss
    does not pass the gate. Only pairs that occur are stored, so that the counts for any vocabulary fit into memory.
    """
    size = text.tokens.vocabulary
    dtype = torch.int32 if size**2 < 2**31 else torch.int64
    train, tried = text.train[:COUNTED].to(dtype), text.validation[:COUNTED].to(dtype)
    pairs, counts = torch.unique(train[:-1] * size + train[1:], return_counts=True)
    totals = torch.bincount(train[:-1], minlength=size).double() + 0.1 * size
    losses = []
    for first, second in zip(tried[:-1].split(2**18), tried[1:].split(2**18), strict=True):
        wanted = first * size + second
        at = torch.searchsorted(pairs, wanted).clamp(max=len(pairs) - 1)
        smoothed = torch.where(pairs[at] == wanted, counts[at].double(), 0.0) + 0.1
        losses.append(-(smoothed / totals[first]).log())
    return float(torch.cat(losses).mean())


def _windows(data: torch.Tensor, starts: torch.Tensor, length: int) -> Batch:
    """Return windows of ``length`` inputs; the target of each input is the next token."""
    rows = data[starts[:, None] + torch.arange(length + 1)].long()
    return Batch(rows[:, :-1], rows[:, 1:])
