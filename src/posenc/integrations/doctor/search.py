"""The search behind `posenc doctor`: which description of a port gives its numbers, the shortest first.

A description is a frozen dataclass; each field is one thing that a port can get wrong. The right one comes first,
then every description that differs from it by one named change, then by two. Words are made from the fields that
differ, so that an answer can say nothing but what was tried.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument

D = TypeVar("D")
Array = NDArray[Any]
Change = Mapping[str, Any]
"""Fields of a description and their wrong values: one mistake, which may touch several fields at once."""
LOW = {"bfloat16": (torch.bfloat16, 2.0**-9), "float16": (torch.float16, 2.0**-12)}
"""The 16-bit types, and half a step of each, relative."""
CLOSE = 2.0**-20
"""Sixteen roundings of float32, which a frequency may have behind it where exp and log made it."""
ROUNDINGS = 6
"""Of 16-bit arithmetic behind a number: both products, their sum, cos, sin and what goes in."""
BASES = (1e4, 1e5, 150_000.0, 160_000.0, 5e5, 1e6, 5e6, 8e6, 1e7)
"""Of released models; a port may have kept one of them."""
SHOWN = 3
"""Causes that an answer lists where the numbers cannot tell them apart."""


@dataclass(frozen=True)
class Diagnosis:
    """What gives a port's numbers.

    Args:
        right: whether the right description does.
        causes: the mistakes, in words; several where these numbers cannot tell them apart, none where nothing
            that was tried gives the numbers.
        text: the answer, in one or two sentences.
    """

    right: bool
    causes: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Expected:
    """What a port should compute.

    Args:
        recipe: the encoding, with all its settings.
        free: fields of a description in which a port may choose; a base among those of released models.
        ladders: the frequencies of all layer types of the model, by name and base.
        lengths: those that the model's config states.
    """

    recipe: Recipe
    free: frozenset[str] = frozenset()
    ladders: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()


def each(**values: Iterable[Any]) -> list[Change]:
    """One change for every value of a field."""
    return [{name: value} for name, drawn in values.items() for value in drawn]


class Subject(ABC, Generic[D]):
    """What can be asked about one kind of port.

    Args:
        right: the description that the model asks for.
        seen: the port's numbers by name, in float64.
        expected: the encoding, of which ``right`` was made.
        note: what an answer adds, as to the order of axes.
    """

    ARRAYS: ClassVar[tuple[tuple[str, ...], ...]]
    """What a port may give, by name: those that belong together, one group or more."""
    FREE: ClassVar[Mapping[str, str]] = {}
    """Settings whose field a port may choose if an encoding's text does not state them; a model states all."""
    PHRASES: ClassVar[Mapping[str, Callable[[Any, Any], str]]]
    """A function of the wrong and the right description for each field, in the order in which they are said."""
    MEASURED: ClassVar[tuple[str, ...]] = ()
    """Fields whose value may be measured: of two that give the numbers the first that was named is meant."""
    WANTED: ClassVar[str]
    """What to give besides, where the numbers cannot tell two mistakes apart."""

    def __init__(self, right: D, seen: Mapping[str, Array], expected: Expected, note: str = "") -> None:
        self.right, self.seen, self.expected, self.note = right, seen, expected, note

    @classmethod
    @abstractmethod
    def of(cls, expected: Expected, numbers: Mapping[str, Array], note: str = "") -> Self:
        """What is asked of a port that gave these numbers."""

    @abstractmethod
    def predict(self, port: D, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        """For each array of a port: theirs, what this description gives, and how far they may be apart."""

    @abstractmethod
    def changes(self) -> Iterable[Change]:
        """Every single mistake."""

    @property
    def sketch(self) -> Mapping[str, Array]:
        """A few of the numbers, which nearly every wrong description fails already."""
        return self.seen

    @property
    def probe(self) -> Mapping[str, Array]:
        """Inputs at which two descriptions that differ at all give other numbers."""
        return self.seen

    @cached_property
    def single(self) -> list[Change]:
        """The changes that change something and have words, each once."""
        changes = map(dict, dict.fromkeys(tuple(change.items()) for change in self.changes()))
        right = vars(self.right).items()
        return [
            change for change in changes if change.keys() <= self.PHRASES.keys() and not right >= change.items()
        ]

    def fits(self, port: D, *inputs: Mapping[str, Array]) -> bool:
        """Whether this description gives the numbers."""
        with suppress(InvalidArgument):  # a change that the library refuses to compute
            return all(
                bool((np.abs(theirs - ours) <= room).all())
                for seen in inputs
                for theirs, ours, room in self.predict(port, seen)
            )
        return False

    def fitting(self, mistakes: int) -> list[D]:
        """All descriptions with so many mistakes, 0 to 2 in different fields, that give the numbers."""
        result, inputs = [], (self.sketch, self.seen)
        with np.errstate(all="ignore"):  # of a wrong description: overflow, and pairs that stand still
            for chosen in itertools.combinations(self.single, mistakes):
                fields = {name: value for change in chosen for name, value in change.items()}
                port = replace(self.right, **fields)  # type: ignore[type-var]
                if len(fields) == sum(map(len, chosen)) and self.fits(port, *inputs):
                    result.append(port)
        return result

    def same(self, one: D, other: D) -> bool:
        """Whether two descriptions are one function, or one but for a measured value."""
        pairs = zip(self.predict(one, self.probe), self.predict(other, self.probe), strict=True)
        return self.unmeasured(one) == self.unmeasured(other) or all(
            bool((np.abs(a - b) <= 1e-9).all()) for (_, a, _), (_, b, _) in pairs
        )

    def unmeasured(self, port: D) -> dict[str, Any]:
        """What is wrong, whatever a measured value is."""
        return {name: name in self.MEASURED or value for name, value in self.wrong(port).items()}

    def wrong(self, port: D) -> dict[str, Any]:
        """The fields that differ from the right description, with the wrong values."""
        return {name: value for name, value in vars(port).items() if getattr(self.right, name) != value}

    def distinct(self, ports: Iterable[D]) -> list[D]:
        """One of each function, the first that was named, as many as are shown and one more."""
        found: list[D] = []
        for port in ports:
            if len(found) <= SHOWN and not any(self.same(port, other) for other in found):
                found.append(port)
        return found

    def is_right(self, port: D) -> bool:
        """Whether it differs in what is free alone."""
        wrong = self.wrong(port)
        return self.expected.free.issuperset(wrong) and wrong.get("base", BASES[0]) in BASES

    def words(self, port: D) -> str:
        """What is wrong with a description."""
        wrong = self.wrong(port)
        said = [phrase(port, self.right) for name, phrase in self.PHRASES.items() if name in wrong]
        return ", and ".join(dict.fromkeys(said))

    def explained(self, mistakes: int) -> Diagnosis | None:
        """The answer where so many mistakes give the numbers."""
        fitting = self.fitting(mistakes)
        right = [port for port in fitting if self.is_right(port)][:1]
        found = right or self.distinct(fitting)
        causes = tuple(map(self.words, found))
        text = "; or ".join(causes[:SHOWN]) + "; or others" * (len(found) > SHOWN)
        if len(found) != 1:
            text = f"these numbers cannot tell apart: {text}. {self.WANTED}"
            return Diagnosis(False, causes, text) if found else None
        apart = np.concatenate(
            [np.abs(theirs - ours).ravel() for theirs, ours, _ in self.predict(found[0], self.seen)]
        )
        text = f"{text}; this reproduces all {apart.size:,} numbers to {apart.max():.0e}{self.note}"
        if not right:
            return Diagnosis(False, causes, text)
        others = self.fitting(1) if not mistakes else []
        if len(others) > len(self.single) / 3:
            also = "; or ".join(map(self.words, self.distinct(others)[:SHOWN]))
            text = f"{text}, as mistakes would that do not show here, such as: {also}. {self.WANTED}"
        return Diagnosis(True, (), f"right{': ' * bool(causes[0])}{text}")

    def unexplained(self) -> Diagnosis:
        """Which numbers differ, and what that usually means."""
        theirs, ours, room = next(iter(self.predict(self.right, self.seen)))
        apart = np.abs(theirs - ours)
        off = ~(apart <= room)
        said = f"nothing that was tried gives these numbers: {off.sum():,} of {off.size:,} differ"
        return Diagnosis(False, (), f"{said}; {self.symptoms(off, apart)}")

    def symptoms(self, off: Array, apart: Array) -> str:
        """Where the first array differs, and what that usually means."""
        first = tuple(map(int, np.argwhere(off)[0]))
        return f"first at {list(first)} by {apart[first]:.3g}, by up to {apart.max():.3g}"


def diagnosed(subjects: Sequence[Subject[Any]]) -> Diagnosis:
    """The shortest description that gives the numbers of one of them, or what is known of the first."""
    tried = (subject.explained(mistakes) for mistakes in range(3) for subject in subjects)
    return next(filter(None, tried), None) or subjects[0].unexplained()


def rounded(values: Array, low: str) -> Array:
    """To 16 bits and back, from float32 as ports have it."""
    result: Array = torch.from_numpy(values.astype(np.float32)).to(LOW[low][0]).double().numpy()
    return result


def step(values: Array) -> Array:
    """What 16-bit arithmetic may be off by, relative, for every row whose numbers all have 16 bits; else 0."""
    steps = [(rounded(values, low) == values).all(-1, keepdims=True) * half for low, (_, half) in LOW.items()]
    return ROUNDINGS * np.maximum(*steps)
