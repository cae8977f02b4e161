"""Tasks that hide sentences in a text, and ask multiple-choice questions about the sentences.

lm-evaluation-harness runs these tasks; see ``lm_eval_tasks``. The sentences and questions are in ``tasks.toml``.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import StudyError

DATA: dict[str, Any] = tomllib.loads(files(__package__).joinpath("tasks.toml").read_text(encoding="utf-8"))
TASKS: dict[str, dict[str, Any]] = DATA["tasks"]
SENTENCES = 9
DEPTHS = tuple(i / (SENTENCES - 1) for i in range(SENTENCES))
"""The depths of the sentences as shares of the text: 0 is the beginning of the text, and 1 is just before the
question.
"""

Encode = Callable[[str], Int[Tensor, " n"]]
"""A function that returns the tokens of a text, without special tokens at its start."""


@dataclass(frozen=True)
class Sheet:
    """The sentences and questions of a task for one text.

    Args:
        task: the name of the task in ``TASKS``.
        number: the index of the text. ``tasks.toml`` lists nine secret numbers, such as 1739. Over nine successive
            texts, each secret number is assigned to each depth exactly once.
    """

    task: str
    number: int

    @property
    def sentences(self) -> list[str]:
        """The hidden sentences, sorted by depth."""
        task = TASKS[self.task]
        first, later = task["sentence"], task.get("next", task["sentence"])
        return [(later if cell >= 3 else first).format(**self._fields(cell)) for cell in range(SENTENCES)]

    @property
    def asked(self) -> list[tuple[str, list[str], str]]:
        """The questions, each a triple: text with the placeholder ``{answer}``, list of options, right option."""
        task = TASKS[self.task]
        cells = range(SENTENCES - 3 if task.get("last") else 0, SENTENCES)
        return [
            (
                task["question"].format(answer="{answer}", **self._fields(cell)),
                self._options(cell),
                self._answer(cell),
            )
            for cell in cells
        ]

    def haystack(self, encode: Encode, text: Int[Tensor, " n"], length: int) -> Int[Tensor, " T"]:
        """Insert the sentences into a passage.

        Together, the passage, the sentences and the longest question have ``length`` tokens.

        Raises:
            StudyError: the text is too short, or ``length`` is too small for the sentences.
        """
        sentences = [encode(sentence) for sentence in self.sentences]
        longest = max(len(encode(question.format(answer=right))) for question, _, right in self.asked)
        room = length - sum(map(len, sentences)) - longest
        stretch = text[self.number * length : self.number * length + room]
        if len(stretch) != room:
            raise StudyError(
                f"haystack number {self.number}, with a length of {length}, has room for {room} tokens of the "
                f"source text from its token {self.number * length} on, but this text has {len(text)} tokens; pass "
                f"{'a larger length' if room < 0 else 'fewer texts or a smaller length'}"
            )
        parts: list[Tensor] = []
        for sentence, start, end in zip(sentences, (0.0, *DEPTHS), DEPTHS, strict=False):
            parts += [stretch[round(start * room) : round(end * room)], sentence]
        return torch.cat(parts)

    def _group(self, cell: int) -> int:
        return (cell + self.number) % 3

    def _number(self, cell: int) -> str:
        return str(DATA["numbers"][(2 * cell + 4 * self.number) % SENTENCES])

    @cached_property
    def _alike(self) -> list[list[int]]:
        """For each of the three groups of sentences (see ``tasks.toml``), the indices of its sentences in
        ``sentences``."""
        return [[cell for cell in range(SENTENCES) if self._group(cell) == group] for group in range(3)]

    def _frequent(self, group: int) -> str:
        return str(DATA["words"][DATA["kinds"][group]][(self.number + 4 * group) % SENTENCES])

    def _answer(self, cell: int) -> str:
        group = self._group(cell)
        by_options = {"words": self._frequent(group), "first": self._number(self._alike[group][0])}
        return by_options.get(TASKS[self.task]["options"], self._number(cell))

    def _options(self, cell: int) -> list[str]:
        group = self._group(cell)
        listed = [self._number(other) for other in self._alike[group] if other != cell]
        every: dict[str, list[str]] = {
            "numbers": DATA["numbers"],
            "unlisted": [number for number in DATA["numbers"] if number not in listed],
            "first": [self._number(first) for first in range(3)],
            "words": DATA["words"][DATA["kinds"][group]],
        }
        return every[TASKS[self.task]["options"]]

    def _fields(self, cell: int) -> dict[str, str]:
        """Return the words for the fields of a sentence's template, by field name."""
        group, turn = self._group(cell), cell // 3
        words, places = DATA["words"][DATA["kinds"][group]], DATA["places"]
        named = [*words, self._frequent(group), self._frequent(group)]
        return {
            "colour": DATA["colours"][group],
            "kind": DATA["kinds"][group],
            "town": places[group],
            "ordinal": DATA["ordinals"][turn],
            "place": places[turn],
            "link": places[3 * group + turn],
            "previous": places[3 * group + turn - 1],
            "number": self._number(cell),
            "others": ", ".join(self._number(other) for other in self._alike[group] if other != cell),
            "list": ", ".join(named[(4 * i + cell + self.number) % len(named)] for i in range(len(named))),
        }
