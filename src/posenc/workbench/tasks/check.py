"""posenc.workbench.check_task: laws that find a task whose answers can be had without positions.

A shortcut is what a model could answer from without attending by position: nothing at all, the place of the answer,
the token at that place, or all tokens that it sees in any order. Each is fitted by least squares to sequences of
training and tried on tests at the trained length. One answer a sequence counts, so that answers are independent.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.laws.check import Report, verdict
from posenc.laws.law import law, owed
from posenc.workbench.tasks import task as task_named
from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask, Task
from posenc.workbench.tasks.text import Text, load

SEQUENCES, TESTS = 2048, 512
"""How many sequences of training a shortcut is fitted to, and on how many tests it is tried."""
SYMBOLS = 512
"""The largest vocabulary that shortcuts are tried on."""
WIDEST = 768
"""Columns of the table of a shortcut, at most."""
SURE = 4.0
"""Standard deviations that a share may lie above chance: 3 of 100,000 draws do."""
SEEN = 0.05
"""The share of tests that may occur among the training sequences, by chance in a task with few."""


@dataclass(frozen=True)
class Answers:
    """One answer of each of N sequences, with what a shortcut may look at: the answer's place, the token there, and
    how often each symbol is seen."""

    place: Int[Tensor, "N 1"]
    token: Int[Tensor, "N 1"]
    counts: Int[Tensor, "N symbols"]
    target: Int[Tensor, " N"]

    @classmethod
    def of(cls, batch: Batch, task: Task, generator: torch.Generator) -> "Answers":
        """One of the scored answers of each row, each as likely."""
        place = torch.multinomial((batch.targets != IGNORE).float(), 1, generator=generator)
        visible = (torch.arange(batch.tokens.shape[1]) <= place) if task.causal else torch.ones_like(batch.tokens)
        counts = torch.zeros(len(place), task.vocabulary, dtype=torch.int64)
        counts.scatter_add_(1, batch.tokens, visible.long())
        return cls(place, batch.tokens.gather(1, place), counts, batch.targets.gather(1, place)[:, 0])


class Subject:
    """A task with sequences of its training and tests, at the trained length."""

    def __init__(self, task: Task) -> None:
        self.task, self.length = task, task.train_length

    def draw(self, seed: int, rows: int) -> Batch:
        """Sequences of training; of a drawn task as long as the tests."""
        generator = torch.Generator().manual_seed(seed)
        if isinstance(self.task, DrawnTask):
            return self.task.draw(generator, rows, self.length)
        return self.task.train_batch(generator, rows)

    def tests(self, length: int, count: int = TESTS) -> list[Batch]:
        return list(self.task.test_batches(length, count))

    @cached_property
    def answers(self) -> tuple[Answers, Answers]:
        """Those of training, and those of the tests."""
        batch, tests, generator = self.draw(2, SEQUENCES), self.tests(self.length), torch.Generator().manual_seed(0)
        if not self.task.scores_every_answer:
            targets = torch.full_like(batch.targets, IGNORE)
            targets[:, -1] = batch.targets[:, -1]
            batch = replace(batch, targets=targets)
        joined = Batch(torch.cat([each.tokens for each in tests]), torch.cat([each.targets for each in tests]))
        return Answers.of(batch, self.task, generator), Answers.of(joined, self.task, generator)

    def share(self, *looks_at: str) -> float:
        """The share of tests that are answered from these columns of ``Answers`` alone."""
        train, test = self.answers
        columns = [torch.cat([getattr(each, name) for each in self.answers]) for name in looks_at]
        table = _one_hot(torch.cat((torch.zeros(len(train.target) + len(test.target), 1).long(), *columns), 1))
        wanted = torch.nn.functional.one_hot(train.target, self.task.outputs).double()
        known, asked = table[: len(train.target)], table[len(train.target) :]
        weights = torch.linalg.solve(known.T @ known + torch.eye(known.shape[1]).double(), known.T @ wanted)
        return float(((asked @ weights).argmax(1) == test.target).double().mean())


def _one_hot(columns: Int[Tensor, "N columns"]) -> Float[Tensor, "N wide"]:
    """Every column as one column a value; high values of many columns share one."""
    most = max(2, WIDEST // columns.shape[1])
    return torch.cat([torch.nn.functional.one_hot(c.clamp(max=most - 1)) for c in columns.T], 1).double()


def _unsuited(subject: Subject) -> str:
    """Why no shortcut is tried."""
    if subject.task.measure == "loss":
        return "it measures a loss, for which a text is judged, not a share of answers"
    many = max(subject.task.vocabulary, subject.task.outputs)
    return f"{many} symbols are more than the {SYMBOLS} that shortcuts are tried on" if many > SYMBOLS else ""


def _orderless(subject: Subject) -> str:
    return _unsuited(subject) or ("" if subject.task.needs_order else "the task says needs_order = False")


@law()
def well_formed(subject: Subject) -> None:
    """Tokens, targets and lengths are as declared, and tests go past the trained length.

    Tokens are 0 … vocabulary − 1, targets 0 … outputs − 1 or IGNORE, both int64 of one shape, with an answer in
    every row; a batch has the rows that it was asked for, and at most as many tokens.
    """
    task, length = subject.task, subject.length
    generator = torch.Generator().manual_seed(0)
    _check("train_batch(generator, 8)", task, [task.train_batch(generator, 8)], length)
    _check(f"test_batches({length}, 8)", task, subject.tests(length, 8), length)
    longer = subject.tests(2 * length, 8)
    _check(f"test_batches({2 * length}, 8)", task, longer, 2 * length)
    shortest = min(batch.tokens.shape[1] for batch in longer)
    owed(shortest > length, f"a test of {2 * length} tokens has {shortest}, no more than the trained {length}")


def _check(call: str, task: Task, batches: list[Batch], most: int) -> None:
    rows = sum(len(batch.tokens) for batch in batches)
    owed(rows == 8, f"{call} has {rows} rows")
    for batch in batches:
        shape = tuple(batch.tokens.shape)
        owed(
            shape == tuple(batch.targets.shape), f"{call}: tokens are {shape}, targets {tuple(batch.targets.shape)}"
        )
        owed(shape[1] <= most, f"{call} has {shape[1]} tokens, and at most {most} were asked for")
        for name, values, count in (
            ("tokens", batch.tokens, task.vocabulary),
            ("targets", batch.targets, task.outputs),
        ):
            owed(values.dtype == torch.int64, f"{call}: {name} are {values.dtype}; call .long()")
            values = values[values != IGNORE] if name == "targets" else values
            low, high = int(values.min()), int(values.max())
            owed(0 <= low <= high < count, f"{call}: {name} are {low} … {high}, outside 0 … {count - 1}")
        answered = (batch.targets != IGNORE).any(1)
        owed(bool(answered.all()), f"{call}: row {int(answered.int().argmin())} has no answer, all are IGNORE")


@law()
def repeats(subject: Subject) -> None:
    """Equal generators draw equal batches, and a test is the same on every call.

    Draw from the generator alone; torch's global generator gives every encoding other batches.
    """
    for what, one, two in (
        ("two generators of one seed", [subject.draw(1, 8)], [subject.draw(1, 8)]),
        ("two calls of test_batches", subject.tests(subject.length, 8), subject.tests(subject.length, 8)),
    ):
        for name in ("tokens", "targets"):
            equal = all(torch.equal(getattr(a, name), getattr(b, name)) for a, b in zip(one, two, strict=True))
            owed(equal, f"{what} give other {name}")


@law()
def follows_the_seed(subject: Subject) -> None:
    """Another seed draws other tokens and other answers.

    Answers that are fixed are learned by heart, whatever the tokens.
    """
    one, two = subject.draw(1, 64), subject.draw(2, 64)
    for name in ("tokens", "targets"):
        equal = torch.equal(getattr(one, name), getattr(two, name))
        owed(not equal, f"seeds 1 and 2 draw the same {name}")


@law(_unsuited)
def guessing_stays_at_chance(subject: Subject) -> None:
    """One answer for everything is right no more often than chance says.

    Balance the answers, or say the share of the commonest one in chance.
    """
    share, chance = subject.share(), subject.task.chance
    most = chance + SURE * math.sqrt(chance * (1 - chance) / TESTS)
    owed(share <= most, f"one answer is right in {share:.3f} of the tests, and chance = {chance:.3f}")


def _below_the_gate(subject: Subject, what: str, *looks_at: str) -> None:
    share, gate = subject.share(*looks_at), subject.task.gate
    owed(share < gate, f"{what} alone answers {share:.3f} of the tests, and gate = {gate:g} counts as learned")


@law(_unsuited)
def place_tells_nothing(subject: Subject) -> None:
    """The place of an answer does not give it away.

    Draw the answers anew for each sequence.
    """
    _below_the_gate(subject, "the answer's place", "place")


@law(_unsuited)
def token_tells_nothing(subject: Subject) -> None:
    """The token at an answer's place does not give it away.

    The target of a position must not be among its inputs: shift targets, or ask at a token that says nothing.
    """
    _below_the_gate(subject, "the token at the answer's place", "token")


@law(_orderless)
def order_tells(subject: Subject) -> None:
    """The tokens in any order do not give the answer away.

    Where content alone is to answer, as in needle, say needs_order = False.
    """
    _below_the_gate(subject, "the tokens in any order", "token", "counts")


@law()
def tests_are_new(subject: Subject) -> None:
    """Tests do not occur in training.

    Draw from as many sequences as cannot be learned by heart, and never from a list.
    """
    generator, size = torch.Generator().manual_seed(3), subject.task.batch
    batches = (subject.task.train_batch(generator, size) for _ in range(SEQUENCES // size))
    trained = {row for batch in batches for row in _rows(batch)}
    tests = [row for batch in subject.tests(subject.length) for row in _rows(batch)]
    share = sum(row in trained for row in tests) / len(tests)
    owed(share <= SEEN, f"{share:.0%} of the tests are among the first {SEQUENCES} training sequences")


def _rows(batch: Batch) -> Iterator[tuple[int, ...]]:
    return map(tuple, batch.tokens.tolist())


LAWS = (
    *(well_formed, repeats, follows_the_seed, guessing_stays_at_chance),
    *(place_tells_nothing, token_tells_nothing, order_tells, tests_are_new),
)


def check_task(task: str | Task, text: Text | None = None) -> Report:
    """As ``posenc.workbench.check_task``."""
    if isinstance(task, str):
        task = task_named(task, text or load(), 1024)
    subject = Subject(task)
    return Report(task.name or type(task).__name__, tuple(verdict(each, subject) for each in LAWS))
