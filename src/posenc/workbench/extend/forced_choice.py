"""Tasks by forced choice: sentences to hide in a text, and questions with a fixed set of answers.

An answer counts where it is likelier than every other option by the first token in which all of them differ:
nothing is decoded, and base models can be asked. The sentences and questions are data, in ``tasks.toml``.
"""

import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import InvalidArgument, StudyError, UnknownName

if TYPE_CHECKING:  # which needs transformers
    from posenc.integrations.huggingface.load import Pretrained

DATA: dict[str, Any] = tomllib.loads(files(__package__).joinpath("tasks.toml").read_text(encoding="utf-8"))
TASKS: dict[str, dict[str, Any]] = DATA["tasks"]
SENTENCES = 9
DEPTHS = tuple(i / (SENTENCES - 1) for i in range(SENTENCES))
"""Of the text before a sentence, the share; 0 is the beginning, 1 just before the question."""


@dataclass(frozen=True)
class Question:
    """A question as tokens, the tokens by which its options differ after it, and the option that is right."""

    tokens: Int[Tensor, " n"]
    firsts: tuple[int, ...]
    right: int

    def margin(self, logits: Float[Tensor, " V"]) -> float:
        """The nats by which the right option is likelier than the best wrong one."""
        *wrong, right = (float(logits[i]) for i in (*self.firsts, self.firsts[self.right]))
        del wrong[self.right]
        return right - max(wrong)


@dataclass(frozen=True)
class Sheet:
    """The sentences and questions of a task for one text; over nine texts every number lies at every depth once."""

    task: str
    number: int

    @property
    def depths(self) -> tuple[float, ...]:
        """Of the sentences that are asked for."""
        return DEPTHS[-3:] if TASKS[self.task].get("last") else DEPTHS

    @property
    def chance(self) -> float:
        """The share that a model gets right which ignores the text."""
        return 1 / len(self._options(SENTENCES - 1))

    @property
    def sentences(self) -> list[str]:
        """In the order of their depths."""
        task = TASKS[self.task]
        first, later = task["sentence"], task.get("next", task["sentence"])
        return [(later if cell >= 3 else first).format(**self._fields(cell)) for cell in range(SENTENCES)]

    @property
    def asked(self) -> list[tuple[str, list[str], str]]:
        """Of each question: its text with ``{answer}`` in it, the options, and which is right."""
        text, cells = TASKS[self.task]["question"], range(SENTENCES - len(self.depths), SENTENCES)
        return [
            (text.format(answer="{answer}", **self._fields(cell)), self._options(cell), self._answer(cell))
            for cell in cells
        ]

    def questions(self, model: "Pretrained") -> list[Question]:
        """As the model's tokenizer cuts them.

        Raises:
            StudyError: it does not tell the options apart.
        """
        return [_question(model, *each) for each in self.asked]

    def length(self, model: "Pretrained") -> int:
        """Tokens of the sentences and of the longest question, with what the tokenizer begins a text with."""
        longest = max(len(question.tokens) for question in self.questions(model))
        return len(model.beginning) + sum(map(len, self._encoded(model))) + longest

    def haystack(self, model: "Pretrained", text: Int[Tensor, " n"], length: int) -> Int[Tensor, " T"]:
        """A stretch of the text with the sentences in it; with the longest question it has ``length`` tokens.

        It begins with the one token that the tokenizer puts before every text, where it does.
        """
        room = length - self.length(model)
        stretch = text[self.number * length : self.number * length + room]
        parts = [model.beginning]
        for sentence, start, end in zip(self._encoded(model), (0.0, *DEPTHS), DEPTHS, strict=False):
            parts += [stretch[round(start * room) : round(end * room)], sentence]
        return torch.cat(parts)

    def _encoded(self, model: "Pretrained") -> list[Int[Tensor, " n"]]:
        return [model.encode(sentence.encode()) for sentence in self.sentences]

    def _group(self, cell: int) -> int:
        return (cell + self.number) % 3

    def _number(self, cell: int) -> str:
        return str(DATA["numbers"][(2 * cell + 4 * self.number) % SENTENCES])

    @cached_property
    def _alike(self) -> list[list[int]]:
        """The sentences of each group."""
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
        """The words of a sentence, by the names that templates use."""
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


def _question(model: "Pretrained", text: str, options: list[str], right: str) -> Question:
    sentences = [model.encode(text.format(answer=option).encode()).tolist() for option in options]
    columns = list(zip(*sentences, strict=False))
    start = next((i for i, column in enumerate(columns) if len(set(column)) > 1), None)
    if start is None or len(set(columns[start])) < len(options):
        raise StudyError(f"the tokenizer of {model.name} does not tell answers apart; leave --tasks out")
    return Question(torch.tensor(sentences[0][:start]), columns[start], options.index(right))


def chosen(names: str) -> tuple[str, ...]:
    """The tasks of these names, separated by commas."""
    tasks = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in tasks:
        if name not in TASKS:
            raise UnknownName("task", name, TASKS)
    if not tasks:
        raise InvalidArgument(f"tasks={names!r} must name at least one of {', '.join(TASKS)}")
    return tasks
