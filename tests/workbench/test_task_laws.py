"""The laws of tasks: every task of ours keeps them, and each planted fault is found by its law."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch

from posenc import workbench
from posenc.workbench.run.settings import TASKS
from posenc.workbench.tasks import Batch, DrawnTask
from posenc.workbench.tasks.task import IGNORE, last_target


class Earlier(DrawnTask):
    """Which symbol stood four places ago? Sound, and what the leaks below are made of."""

    question = "which symbol stood four places ago?"
    vocabulary: int = 8
    outputs: int = 8
    chance: float = 1 / 8
    shortest: ClassVar[int] = 5
    train_length: int = 24

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(8, (rows, length), generator=generator)
        return Batch(tokens, last_target(length, tokens[:, -5]))


class AnswersOfThePlace(Earlier):
    scores_every_answer: ClassVar[bool] = True

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(8, (rows, length), generator=generator)
        return Batch(tokens, (torch.arange(length) % 8).expand(rows, -1))


class Unbalanced(Earlier):
    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = (torch.rand(rows, length, generator=generator) * 9).long() % 8  # 0 is drawn twice as often
        return Batch(tokens, last_target(length, tokens[:, -5]))


class ItsOwnDice(Earlier):
    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        return super().draw(torch.default_generator, rows, length)


class NeverAsked(Earlier):
    def train_batch(self, generator: torch.Generator, size: int) -> Batch:
        return Batch(*(torch.full((size, 5), value) for value in (0, IGNORE)))


class OutsideItsOutputs(Earlier):
    outputs: int = 7


class NeverLonger(Earlier):
    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        return super().test_batches(min(length, self.train_length), count)


LEAKS = {
    AnswersOfThePlace: ("follows_the_seed", "seeds 1 and 2 draw the same targets"),
    Unbalanced: ("guessing_stays_at_chance", "but chance = 0.125"),
    ItsOwnDice: ("repeats", "two generators with the same seed give different tokens"),
    NeverAsked: ("well_formed", "train_batch(generator, 8): row 0 has no target except IGNORE"),
    OutsideItsOutputs: ("well_formed", "train_batch(generator, 8): targets are 0 … 7, outside 0 … 6"),
    NeverLonger: ("well_formed", "test_batches(48, 8) has rows of 24 tokens; they must exceed train_length=24"),
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_keeps_the_laws(name: str) -> None:
    report = workbench.check_task(name)
    assert report.ok, report
    assert report.name == name
    skipped = {verdict.law for verdict in report.verdicts if verdict.outcome == "not owed"}
    assert skipped == ({"guessing_stays_at_chance"} if name == "language" else set())


def test_what_the_leaks_are_made_of_is_sound() -> None:
    report = workbench.check_task(Earlier())
    assert report.ok, report
    assert report.name == "Earlier"


@pytest.mark.parametrize("leaking", LEAKS, ids=lambda leaking: leaking.__name__)
def test_each_leak_is_found_by_its_law_in_a_sentence(leaking: type[Earlier]) -> None:
    law, sentence = LEAKS[leaking]
    broken = {verdict.law: verdict for verdict in workbench.check_task(leaking()).broken}
    assert sentence in broken.pop(law).detail
    assert not broken
