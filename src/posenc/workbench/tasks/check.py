"""Checks that a task's batches are valid and repeatable, and that a constant guess scores at most the chance
level."""

import math

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.laws.check import Report, verdict
from posenc.laws.law import law, owed
from posenc.workbench.tasks import task as task_named
from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask, Task
from posenc.workbench.tasks.text import Text, load

SEQUENCES, TESTS = 2048, 512
"""The number of training sequences from which the most common answer is found, and the number of test sequences."""
SURE = 4.0
"""The allowed excess over the chance level, in standard deviations; a correct task exceeds it in 3 of 100,000
cases."""


def _draw(task: Task, seed: int, rows: int) -> Batch:
    """Draw training sequences. For a ``DrawnTask``, they are as long as the test sequences."""
    generator = torch.Generator().manual_seed(seed)
    return (
        task.draw(generator, rows, task.train_length)
        if isinstance(task, DrawnTask)
        else task.train_batch(generator, rows)
    )


def _answers(task: Task, targets: Int[Tensor, "N T"]) -> Int[Tensor, " N"]:
    """Draw one scored answer per row, so that the answers are independent."""
    if not task.scores_every_answer:
        return targets[:, -1]
    chosen = torch.multinomial((targets != IGNORE).float(), 1, generator=torch.Generator().manual_seed(0))
    return targets.gather(1, chosen)[:, 0]


@law()
def well_formed(task: Task) -> None:
    """Tokens, targets and lengths match the task's attributes, and tests can be longer than the trained length.

    Tokens must be between 0 and vocabulary − 1. Targets must be between 0 and outputs − 1, or IGNORE. Tokens and
    targets must be int64 tensors of the same shape, with an answer in every row. A batch must have the requested
    number of rows, and at most the requested number of tokens.
    """
    length, generator = task.train_length, torch.Generator().manual_seed(0)
    _check("train_batch(generator, 8)", task, [task.train_batch(generator, 8)], length)
    _check(f"test_batches({length}, 8)", task, list(task.test_batches(length, 8)), length)
    longer = list(task.test_batches(2 * length, 8))
    _check(f"test_batches({2 * length}, 8)", task, longer, 2 * length)
    shortest = min(batch.tokens.shape[1] for batch in longer)
    owed(
        shortest > length,
        f"test_batches({2 * length}, 8) has rows of {shortest} tokens; they must exceed train_length={length}",
    )


def _check(call: str, task: Task, batches: list[Batch], most: int) -> None:
    rows = sum(len(batch.tokens) for batch in batches)
    owed(rows == 8, f"{call} has {rows} rows, but 8 were requested")
    for batch in batches:
        shape = tuple(batch.tokens.shape)
        owed(
            shape == tuple(batch.targets.shape),
            f"{call}: tokens have shape {shape} and targets {tuple(batch.targets.shape)}",
        )
        answered = (batch.targets != IGNORE).any(1)
        owed(bool(answered.all()), f"{call}: row {int(answered.int().argmin())} has no target except IGNORE")
        owed(shape[1] <= most, f"{call} has {shape[1]} tokens, but at most {most} were requested")
        for name, values, count in (
            ("tokens", batch.tokens, task.vocabulary),
            ("targets", batch.targets, task.outputs),
        ):
            owed(values.dtype == torch.int64, f"{call}: {name} are {values.dtype}; call .long()")
            values = values[values != IGNORE] if name == "targets" else values
            low, high = int(values.min()), int(values.max())
            owed(0 <= low <= high < count, f"{call}: {name} are {low} … {high}, outside 0 … {count - 1}")


@law()
def repeats(task: Task) -> None:
    """Generators in the same state draw the same batch, and test batches are the same on every call.

    Draw only from the generator that is passed; with torch's global generator, every encoding would get different
    batches.
    """
    for what, one, two in (
        ("two generators with the same seed", [_draw(task, 1, 8)], [_draw(task, 1, 8)]),
        ("two calls of test_batches", *(list(task.test_batches(task.train_length, 8)) for _ in range(2))),
    ):
        for name in ("tokens", "targets"):
            owed(
                all(torch.equal(getattr(a, name), getattr(b, name)) for a, b in zip(one, two, strict=True)),
                f"{what} give different {name}",
            )


@law()
def follows_the_seed(task: Task) -> None:
    """Different seeds draw different tokens and different answers.

    Draw the answers at random; a model could memorise fixed answers without reading the tokens.
    """
    one, two = _draw(task, 1, 64), _draw(task, 2, 64)
    for name in ("tokens", "targets"):
        owed(not torch.equal(getattr(one, name), getattr(two, name)), f"seeds 1 and 2 draw the same {name}")


@law(lambda task: "it measures a loss, not a share of right answers" if task.measure == "loss" else "")
def guessing_stays_at_chance(task: Task) -> None:
    """A constant answer is right no more often than ``chance``.

    Balance the answers, or set ``chance`` to the share of the most common answer.
    """
    commonest = _answers(task, _draw(task, 2, SEQUENCES).targets).bincount().argmax()
    tested = torch.cat([batch.targets for batch in task.test_batches(task.train_length, TESTS)])
    share, chance = float((_answers(task, tested) == commonest).double().mean()), task.chance
    most = chance + SURE * math.sqrt(chance * (1 - chance) / TESTS)
    owed(share <= most, f"always guessing the most common answer scores {share:.3f}, but chance = {chance:.3f}")


LAWS = (well_formed, repeats, follows_the_seed, guessing_stays_at_chance)


def check_task(task: str | Task, text: Text | None = None) -> Report:
    """Check in a few seconds that a task's batches are valid and repeatable and that guessing stays at chance.

    Print the result with ``print(check_task("my_module:MyTask"))``.

    Args:
        task: a name, ``module:Class``, or an instance.
        text: the text for a task that reads one; if None, the default text.
    """
    if isinstance(task, str):
        task = task_named(task, text or load(), 1024)
    return Report(task.name or type(task).__name__, tuple(verdict(each, task) for each in LAWS))
