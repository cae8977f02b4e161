"""Addition of two n-digit numbers in four formats; every digit of the sum is scored.

plain      357+068=0425               Kazemnejad et al. 2023 (arXiv 2305.19466): the first digit needs all carries
reversed   357+068=5240               Lee et al. 2023 (arXiv 2307.03381): each digit needs one column and a carry
hints      c3b5a7+c0b6a8=a5b2c4d0     Zhou et al. 2023 (arXiv 2310.16028): a hint before each digit names its column
coupled    357+068=5240               Cho et al. 2024 (arXiv 2405.20671): digits of a column share a position

A model must align three numbers over distances that grow with the number of digits. The last three formats make
the task easier. In a reversed sum, each digit depends on one column and a carry. Hints let the model find a column
by content instead of position. Coupled positions tell the encoding the column of each digit. Numbers are drawn
digit by digit and keep leading zeros. The last two formats also write the sum in reverse, as in their papers. They
start from a random hint or position, so that the hints and positions of longer numbers are trained too.
"""

from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import PositionOutOfRange
from posenc.positions import coupled
from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask

PLUS, EQUALS, HINT = 10, 11, 12
HINTS = 128
"""The number of different hints. A sum of two n-digit numbers uses n + 1 consecutive hints from a random start."""


class Addition(DrawnTask):
    """Addition, most significant digit first. For n-digit numbers, the chance level is (n/10 + 1/2)/(n + 1),
    because the first digit of the sum is 0 or 1."""

    question = "what is the sum of two numbers? (share of digits right)"
    shortest: ClassVar[int] = 5
    train_length: int = 32
    vocabulary: int = HINT
    outputs: int = 10
    steps: ClassVar[int] = 3000
    scores_every_answer: ClassVar[bool] = True
    backwards: ClassVar[bool] = False
    hinted: ClassVar[bool] = False

    def __init__(self, train_length: int | None = None) -> None:
        super().__init__(train_length)
        n = self.digits(self.train_length)
        self.chance = (n / 10 + 1 / 2) / (n + 1)

    def digits(self, length: int) -> int:
        """Return the largest n for which the addition of n-digit numbers fits into ``length`` input tokens.

        Two numbers of n digits, ``+``, ``=`` and a sum of n + 1 digits have 3n + 3 tokens, or 6n + 4 with a hint
        before each digit. The last of these tokens is predicted but is not an input.
        """
        return (length - 3) // 6 if self.hinted else (length - 2) // 3

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        n = self.digits(length)
        numbers = torch.randint(10, (2, rows, n), generator=generator)  # least significant digit first
        total, column = _sum(*numbers), torch.arange(n + 1)
        if not self.backwards:
            total, column = total.flip(1), column.flip(0)
        one, two = numbers.flip(2)
        plus, equals = (torch.full((rows, 1), sign) for sign in (PLUS, EQUALS))
        digits, sign = torch.arange(n).flip(0), torch.tensor([-1])
        columns = torch.cat((digits, sign, digits, sign, column))
        return self.written(generator, torch.cat((one, plus, two, equals, total), 1), columns)

    def written(self, generator: torch.Generator, text: Int[Tensor, "B L"], columns: Int[Tensor, " L"]) -> Batch:
        """Return a batch of additions in this format. ``columns`` counts from the least significant digit, and is
        −1 at the plus sign and the equals sign.
        """
        return _batch(text, torch.arange(len(columns)) > 2 * int(columns.max()) + 1)


class Reversed(Addition):
    """Addition with the least significant digit of the sum first."""

    backwards: ClassVar[bool] = True


class Hints(Reversed):
    """Addition like ``Reversed``, with a hint before each digit that names the digit's column."""

    shortest: ClassVar[int] = 9
    train_length: int = 63
    vocabulary: int = HINT + HINTS
    hinted: ClassVar[bool] = True

    def written(self, generator: torch.Generator, text: Int[Tensor, "B L"], columns: Int[Tensor, " L"]) -> Batch:
        last = int(columns.max())
        if last >= HINTS:
            raise PositionOutOfRange(
                f"numbers with {last} digits need {last + 1} hints, but there are only {HINTS}"
            )
        start = torch.randint(HINTS - last, (len(text), 1), generator=generator)
        at = torch.arange(len(columns)).repeat_interleave(1 + (columns >= 0))
        hint = at == at.roll(-1)
        hinted = torch.where(hint, HINT + start + columns[at], text[:, at])
        return _batch(hinted, ~hint & (at > 2 * last + 1))


class Coupled(Reversed):
    """Addition like ``Reversed``, with one position for all digits of a column.

    The plus sign and the equals sign also share a position.
    """

    def written(self, generator: torch.Generator, text: Int[Tensor, "B L"], columns: Int[Tensor, " L"]) -> Batch:
        batch, groups = super().written(generator, text, columns), int(columns.max()) - columns
        up_to = max(self.train_length, int(groups.max()) + 1)
        return replace(batch, positions=coupled(groups[None, :-1], up_to, generator))


def _sum(one: Int[Tensor, "B n"], two: Int[Tensor, "B n"]) -> Int[Tensor, "B m"]:
    """Return the digits of the sum, least significant first. The sum has one digit more than each number."""
    digits, carry = [], torch.zeros_like(one[:, 0])
    for column in (one + two).unbind(1):
        digits.append((column + carry) % 10)
        carry = (column + carry) // 10
    return torch.stack((*digits, carry), 1)


def _batch(text: Int[Tensor, "B L"], scored: Bool[Tensor, " L"]) -> Batch:
    """Return a batch whose targets are the ``scored`` tokens, each predicted from the token before it."""
    return Batch(text[:, :-1], torch.where(scored, text, IGNORE)[:, 1:])
