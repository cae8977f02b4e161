"""A task: batches for training and tests, right answers, chance, and a gate."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.positions import on_axes

IGNORE = -100
"""The target of a position that is not scored."""

TOKENS_PER_TEST_BATCH = 4096
"""Longer batches spend their time on page faults."""


@dataclass(frozen=True)
class Batch:
    """Tokens and the right output at every position (``IGNORE`` where none is asked for)."""

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    depth: tuple[float, ...] = ()
    """Per row, the place of the answer: 0 at the start of the sequence, 1 at its end; empty where it has none."""
    positions: Int[Tensor, "A T"] | Int[Tensor, "*A B T"] | None = None
    """The tokens' positions on a grid, the same for all rows; None where tokens follow one another."""

    def on_axes(self, axes: int) -> "Batch":
        """The batch for an encoding with so many axes.

        Positions along one axis are the same along each, as a text's are. Places on a grid are an encoding's last
        axes, and axes before them, such as time, are 0; an encoding with one axis has the cells one after the
        other, row by row.
        """
        if self.positions is None or axes == len(self.positions) > 1:
            return self
        if len(self.positions) == 1:
            return replace(self, positions=on_axes(self.positions[0], axes))
        if axes < len(self.positions):
            return replace(self, positions=None)
        before = self.positions.new_zeros(axes - len(self.positions), self.positions.shape[1])
        return replace(self, positions=torch.cat((before, self.positions)))

    def to(self, device: torch.device | str) -> "Batch":
        """The same on a device."""
        at = None if self.positions is None else self.positions.to(device)
        return replace(self, tokens=self.tokens.to(device), targets=self.targets.to(device), positions=at)


@dataclass(eq=False)
class Criteria:
    """The criteria by which runs of a task are judged.

    Args:
        name: of the task.
        question: the task in words.
        measure: ``"loss"``: nats per target, lower is better. ``"accuracy"``: share of right answers.
        chance: the measure of a model that knows the answers' frequencies alone.
        gate: the measure at the trained length that counts as having learned the task.
    """

    name: str
    question: str
    measure: Literal["loss", "accuracy"]
    chance: float
    gate: float

    @property
    def sign(self) -> int:
        """1 where lower is better, −1 where higher is."""
        return 1 if self.measure == "loss" else -1

    def passes(self, value: float) -> bool:
        """Whether a model with this measure at the trained length has learned the task."""
        return self.sign * value <= self.sign * self.gate


class Task(Criteria, ABC):
    """A task that a small decoder learns at lengths up to ``train_length``, and on which it is tested past it.

    A study gives it its ``name``.
    """

    name: str = ""
    measure: Literal["loss", "accuracy"] = "accuracy"
    gate: float = 0.98
    train_length: int
    """The longest sequence in training, in tokens; the class has the task's default."""
    vocabulary: int
    outputs: int
    unit: str = "token"
    """One token in words."""
    steps: ClassVar[int] = 1000
    batch: ClassVar[int] = 64
    learning_rate: ClassVar[float] = 3e-3

    causal: ClassVar[bool] = True
    """Whether a token sees only itself and earlier tokens."""

    scores_every_answer: ClassVar[bool] = False
    """Whether a test scores every answer of a sequence, or the one at its last position."""

    reads_text: ClassVar[bool] = False
    """Whether it is made from a text, as ``Task(text, longest, train_length)``; else as ``Task(train_length)``."""

    def places(self, length: int) -> tuple[int, ...]:
        """The places on every axis of a test of so many tokens; none where tokens follow one another."""
        return ()

    @abstractmethod
    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        """The next training batch, the same for every encoding with an equal generator."""

    @abstractmethod
    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        """``count`` test sequences of ``length`` tokens, the same on every call."""


def random_length(generator: torch.Generator, shortest: int, longest: int) -> int:
    """A training length, uniform between both ends."""
    return int(torch.randint(shortest, longest + 1, (), generator=generator))


def last_target(rows: int, length: int, answers: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
    """Targets that ask for one answer, at the last position."""
    targets = torch.full((rows, length), IGNORE)
    targets[:, -1] = answers
    return targets


def in_batches(length: int, count: int) -> Iterator[int]:
    """Row counts that add up to ``count`` with a bounded number of tokens in each."""
    rows = max(1, TOKENS_PER_TEST_BATCH // length)
    for first in range(0, count, rows):
        yield min(rows, count - first)


class DrawnTask(Task):
    """A task with one answer a sequence, whose sequences are drawn at random: one method says how."""

    shortest: ClassVar[int] = 4

    def __init__(self, train_length: int | None = None) -> None:
        self.train_length = train_length or type(self).train_length
        if self.train_length < self.shortest:
            raise InvalidArgument(
                f"train_length={self.train_length} of {type(self).__name__} must be at least "
                f"{self.shortest}, its shortest sequence"
            )

    @abstractmethod
    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        """Sequences of one length with balanced answers."""

    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        return self.draw(generator, size, random_length(generator, self.shortest, self.train_length))

    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(1_000_003 + length)
        for rows in in_batches(length, count):
            batch = self.draw(generator, rows, length)
            if not self.scores_every_answer:
                batch = replace(batch, targets=last_target(rows, batch.tokens.shape[1], batch.targets[:, -1]))
            yield batch
