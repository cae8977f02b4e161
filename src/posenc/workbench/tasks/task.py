"""The base classes of tasks, and every task by its name. A task defines its batches for training and for tests, the
right answers, the chance level and the gate."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from posenc.arguments import one_of
from posenc.encodings.foreign import load
from posenc.errors import InvalidArgument
from posenc.positions import on_axes
from posenc.workbench.custom_code import one_sentence
from posenc.workbench.run.settings import TASKS, ByTask, declared
from posenc.workbench.tasks.text import Text

IGNORE = -100
"""The target of a position that is not scored."""

TOKENS_PER_TEST_BATCH = 4096
"""The largest number of tokens per test batch, unless a single sequence is longer. Larger batches are slow
because of page faults."""


@dataclass(frozen=True)
class Batch:
    """Tokens, and the target at every position. The target is ``IGNORE`` at a position that is not scored."""

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    depth: tuple[float, ...] = ()
    """The depth of each row's answer, from 0 at the start of the sequence to 1 at its end; empty if the task has no
    depths."""
    positions: Int[Tensor, "A T"] | Int[Tensor, "*A B T"] | None = None
    """The positions of the tokens, the same for all rows if they are on a grid; None for plain sequences."""

    def on_axes(self, axes: int) -> "Batch":
        """Return the batch with positions for an encoding with this many position axes.

        A token of a sequence has the same position on every axis. If the encoding has more axes than a grid, the
        grid's cells have their positions on the encoding's last axes, and position 0 on its first axes, such as
        time. If the encoding has one axis, the cells of a grid are numbered row by row.
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
        """Return the batch on a device."""
        at = None if self.positions is None else self.positions.to(device)
        return replace(self, tokens=self.tokens.to(device), targets=self.targets.to(device), positions=at)


@dataclass(eq=False)
class Criteria:
    """The criteria for judging runs of a task.

    Args:
        name: the task's name.
        question: a short description of the task.
        measure: ``"loss"`` (nats per target, lower is better) or ``"accuracy"`` (share of right answers).
        chance: the measure of a model that knows only the frequency of each answer.
        gate: the measure at the trained length that a model must reach to count as having learned the task.
    """

    name: str
    question: str
    measure: Literal["loss", "accuracy"]
    chance: float
    gate: float

    @property
    def sign(self) -> int:
        """The sign of the measure: 1 if lower is better, −1 if higher is better."""
        return 1 if self.measure == "loss" else -1

    def passes(self, value: float) -> bool:
        """Return whether a model with this measure at the trained length has learned the task."""
        return self.sign * value <= self.sign * self.gate


class Task(Criteria, ABC):
    """A task on which a small transformer is trained at lengths up to ``train_length``, and tested at this length
    and at longer lengths.

    Subclasses need not set ``name``, because ``task`` sets it when it creates a task.
    """

    name: str = ""
    measure: Literal["loss", "accuracy"] = "accuracy"
    gate: float = 0.98
    train_length: int
    """The longest training sequence in tokens. The class attribute is the task's default."""
    vocabulary: int
    outputs: int
    steps: ClassVar[int] = 1000
    batch: ClassVar[int] = 64
    learning_rate: ClassVar[float] = 3e-3

    causal: ClassVar[bool] = True
    """Whether a token attends only to itself and earlier tokens."""

    scores_every_answer: ClassVar[bool] = False
    """Whether a test scores every answer of a sequence, or only the answer at the last position."""

    reads_text: ClassVar[bool] = False
    """Whether the task reads a text. If so, its class is called with the arguments (text, longest,
    train_length)."""

    def places(self, length: int) -> tuple[int, ...]:
        """Return the number of positions on each axis in a test with this many tokens; empty for a sequence."""
        return ()

    @abstractmethod
    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        """Draw a training batch, which depends only on the state of ``generator``."""

    @abstractmethod
    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        """Yield ``count`` test sequences of at most ``length`` tokens, in batches that are the same on every
        call."""


def last_target(length: int, answers: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
    """Return targets with a single answer, at the last of ``length`` positions."""
    return pad(answers[:, None], (length - 1, 0), value=IGNORE)


def in_batches(length: int, count: int) -> list[int]:
    """Return batch sizes that add up to ``count``, each with a bounded number of tokens."""
    rows = max(1, TOKENS_PER_TEST_BATCH // length)
    return [min(rows, count - first) for first in range(0, count, rows)]


class DrawnTask(Task):
    """The base class of tasks with random sequences. Subclasses implement ``draw``."""

    shortest: ClassVar[int] = 4

    def __init__(self, train_length: int | None = None) -> None:
        self.train_length = train_length or type(self).train_length
        if self.train_length < self.shortest:
            raise InvalidArgument(
                f"train_length={self.train_length} of {type(self).__name__} must be at least "
                f"{self.shortest}, the length of the shortest sequence"
            )

    @abstractmethod
    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        """Draw ``rows`` sequences of the same length, at most ``length`` tokens, with balanced answers."""

    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        length = int(torch.randint(self.shortest, self.train_length + 1, (), generator=generator))
        return self.draw(generator, size, length)

    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(1_000_003 + length)
        for rows in in_batches(length, count):
            batch = self.draw(generator, rows, length)
            if not self.scores_every_answer:
                batch = replace(batch, targets=last_target(batch.tokens.shape[1], batch.targets[:, -1]))
            yield batch


def task_class(name: str, kind: str = "task") -> type[Task]:
    """Return the class of the task with this name. For ``my_module:MyTask``, ``my_module`` is imported.

    Raises:
        UnknownName: no task has this name; the message suggests the nearest name.
        InvalidArgument: the module or class does not exist, the class is not a ``Task``, or the class lacks an
            attribute that a study needs, or has a wrong value of it.
    """
    if ":" not in name:
        return resolve_name(f"{__package__}.{TASKS[one_of(kind, name, (*TASKS, 'my_module:MyTask'))]}")
    with one_sentence(f"task {name!r}", (name,)):
        custom: type[Task] = load(name, Task, "posenc.workbench.tasks.Task")
    _complete(name, custom, "measure", "train_length", "steps", "batch", "learning_rate")
    for key in ("train_length", "steps", "batch", "learning_rate"):
        declared(ByTask)[key].check(f"{key} of task {name}", getattr(custom, key))
    if custom.__abstractmethods__:
        raise InvalidArgument(
            f"task {name} lacks {' and '.join(sorted(custom.__abstractmethods__))}, which its class must implement"
        )
    return custom


def task(name: str, text: Text | None, longest: int, train_length: int | None = None) -> Task:
    """Create the task with this name, for tests up to ``longest`` tokens.

    If ``train_length`` is None, the task's default is used. Tasks that read a text, such as ``language``, need
    ``text``; other tasks ignore it.
    """
    make: Any = task_class(name)
    task: Task = make(text, longest, train_length) if make.reads_text else make(train_length)
    _complete(name, task, "question", "chance", "gate", "vocabulary", "outputs")
    one_of(f"measure of task {name}", task.measure, ("loss", "accuracy"))
    task.name = name
    return task


def _complete(name: str, thing: object, *attributes: str) -> None:
    missing = [attribute for attribute in attributes if not hasattr(thing, attribute)]
    if missing:
        raise InvalidArgument(
            f"task {name} lacks {' and '.join(missing)}, which its class must set, as in: {missing[0]} = …"
        )
