"""Language: predict the next byte of real text. The same targets are scored with more and more context.

A test window of any length ends at the same places in the validation text, and its last ``TARGETS`` bytes are
the fixed targets: whatever changes with the length is the model's doing, not the text's. The mean over whole
windows, which the papers print, mixes in the cheaper targets that come with more context on average.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch

from posenc.errors import StudyError
from posenc.workbench.tasks.task import Batch, Task, in_batches
from posenc.workbench.tasks.text import Text

TARGETS = 64


class Language(Task):
    """Next byte of a text, at every position; the gate is a table of byte pairs counted in training."""

    name: ClassVar[str] = "language"
    question: ClassVar[str] = "predict the next byte of real text, the same targets with ever more context"
    measure: ClassVar[Literal["loss", "accuracy"]] = "loss"
    train_length: ClassVar[int] = 128
    vocabulary: ClassVar[int] = 256
    outputs: ClassVar[int] = 256
    steps: ClassVar[int] = 800
    batch: ClassVar[int] = 16
    learning_rate: ClassVar[float] = 8e-3

    def __init__(self, text: Text, longest: int) -> None:
        """``longest`` is the longest test window: all windows end where the longest ones can."""
        self.text = text
        if len(text.train) <= self.train_length + 1:
            raise StudyError(
                f"text {text.name!r} has {len(text.train)} training bytes; windows of {self.train_length} need "
                "more, and a few hundred thousand give a useful answer"
            )
        if len(text.validation) < longest + TARGETS + 1:
            raise StudyError(
                f"text {text.name!r} has {len(text.validation)} validation bytes; length {longest} needs at "
                f"least {longest + TARGETS + 1}: pass a longer text or smaller --lengths"
            )
        self.longest = longest
        self.chance = _byte_loss(text)
        self.gate = _pair_loss(text)

    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        length = self.train_length
        starts = torch.randint(len(self.text.train) - length, (size,), generator=generator)
        return _windows(self.text.train, starts, length)

    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        ends = torch.linspace(self.longest + 1, len(self.text.validation), count).long()
        for rows in in_batches(length, count):
            yield _windows(self.text.validation, ends[:rows] - length - 1, length)
            ends = ends[rows:]


def _byte_loss(text: Text) -> float:
    """Nats per validation byte under the training text's byte frequencies."""
    counts = torch.bincount(text.train, minlength=256).double() + 1
    return float(-(counts / counts.sum()).log()[text.validation].mean())


def _pair_loss(text: Text) -> float:
    """Nats per validation byte under a table of byte pairs: a model must beat it to have learnt to read."""
    pairs = torch.bincount(text.train[:-1] * 256 + text.train[1:], minlength=65536)
    counts = pairs.view(256, 256).double() + 0.1
    table = (counts / counts.sum(1, keepdim=True)).log()
    return float(-table[text.validation[:-1], text.validation[1:]].mean())


def _windows(data: torch.Tensor, starts: torch.Tensor, length: int) -> Batch:
    """Windows of ``length`` inputs, each byte's target being the next."""
    rows = data[starts[:, None] + torch.arange(length + 1)]
    return Batch(rows[:, :-1], rows[:, 1:])
