"""The laws of tasks: every task of ours keeps them, and each planted leak is found by its law."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch

from posenc import workbench
from posenc.workbench.tasks import TASKS, Batch, DrawnTask
from posenc.workbench.tasks.task import last_target


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
        return Batch(tokens, last_target(rows, length, tokens[:, -5]))


class TargetAmongInputs(Earlier):
    vocabulary: int = 64

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        batch = super().draw(generator, rows, length)
        batch.tokens[:, -1] = 8 * batch.tokens[:, -1] + batch.targets[:, -1]
        return batch


class OddOrEven(Earlier):
    """How often a symbol stands there, and not where."""

    chance: float = 0.5

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(8, (rows, length), generator=generator)
        return Batch(tokens, last_target(rows, length, (tokens == 3).sum(1) % 2))


class AnswersOfThePlace(Earlier):
    scores_every_answer: ClassVar[bool] = True

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(8, (rows, length), generator=generator)
        return Batch(tokens, (torch.arange(length) % 8).expand(rows, -1))


class OneInAHundred(Earlier):
    """Tests and training come from one list."""

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        listed = super().draw(torch.Generator().manual_seed(0), 100, length)
        chosen = torch.randint(100, (rows,), generator=generator)
        return Batch(listed.tokens[chosen], listed.targets[chosen])


class Unbalanced(Earlier):
    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = (torch.rand(rows, length, generator=generator) * 9).long() % 8  # 0 is drawn twice as often
        return Batch(tokens, last_target(rows, length, tokens[:, -5]))


class ItsOwnDice(Earlier):
    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        return super().draw(torch.default_generator, rows, length)


class OutsideItsOutputs(Earlier):
    outputs: int = 7


class NeverLonger(Earlier):
    def test_batches(self, length: int, count: int) -> Iterator[Batch]:
        return super().test_batches(min(length, self.train_length), count)


LEAKS = {
    TargetAmongInputs: ("token_tells_nothing", "the token at the answer's place alone answers 1.000 of the tests"),
    OddOrEven: ("order_tells", "the tokens in any order alone answers"),
    AnswersOfThePlace: ("follows_the_seed", "seeds 1 and 2 draw the same targets"),
    OneInAHundred: ("tests_are_new", "of the tests are among the first 2048 training sequences"),
    Unbalanced: ("guessing_stays_at_chance", "and chance = 0.125"),
    ItsOwnDice: ("repeats", "two generators of one seed give other tokens"),
    OutsideItsOutputs: ("well_formed", "train_batch(generator, 8): targets are 0 … 7, outside 0 … 6"),
    NeverLonger: ("well_formed", "a test of 48 tokens has 24, no more than the trained 24"),
}
SHORTCUTS = {"guessing_stays_at_chance", "place_tells_nothing", "token_tells_nothing", "order_tells"}
ALSO = {
    TargetAmongInputs: {"order_tells"},
    AnswersOfThePlace: {"place_tells_nothing"},
    OutsideItsOutputs: SHORTCUTS,
}
"""What else finds a leak: all tokens are more than one; no table has a column for an answer past its outputs."""


@pytest.mark.parametrize("name", TASKS)
def test_every_task_keeps_the_laws(name: str) -> None:
    report = workbench.check_task(name)
    assert report.ok, report
    assert report.name == name
    skipped = {verdict.law for verdict in report.verdicts if verdict.outcome == "not owed"}
    assert skipped == {"language": SHORTCUTS, "needle": {"order_tells"}}.get(name, set())


def test_what_the_leaks_are_made_of_is_sound() -> None:
    report = workbench.check_task(Earlier())
    assert report.ok, report
    assert report.name == "Earlier"


@pytest.mark.parametrize("leaking", LEAKS, ids=lambda leaking: leaking.__name__)
def test_each_leak_is_found_by_its_law_in_a_sentence(leaking: type[Earlier]) -> None:
    law, sentence = LEAKS[leaking]
    broken = {verdict.law: verdict for verdict in workbench.check_task(leaking()).broken}
    assert sentence in broken.pop(law).detail
    assert broken.keys() <= ALSO.get(leaking, set()), broken
