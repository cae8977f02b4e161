"""The search behind `posenc doctor`: which description of a port gives its numbers, the shortest first.

A description is a frozen dataclass; each field is one thing that a port can get wrong. The right one comes first,
then every description that differs from it by one named change, then by two. Words are made from the fields that
differ, so that an answer can say nothing but what was tried.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.errors import InvalidArgument

D = TypeVar("D")
Array = NDArray[Any]
Change = Mapping[str, Any]
"""Fields of a description and their wrong values: one mistake, which may touch several fields at once."""
LOW = {"bfloat16": torch.bfloat16, "float16": torch.float16}
HALF_STEP = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
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
        mistakes: how many at once were needed.
    """

    right: bool
    causes: tuple[str, ...]
    text: str
    mistakes: int = 0

    def __str__(self) -> str:
        return self.text


def each(**values: Iterable[Any]) -> list[Change]:
    """One change for every value of a field."""
    return [{name: value} for name, drawn in values.items() for value in drawn]


def measured(value: float, *digits: int) -> list[float]:
    """A value to so many digits, the fewest first: a port's own is a short number."""
    return [float(f"{value:.{n}g}") for n in digits if 1 < value < 1e12]


class Subject(ABC, Generic[D]):
    """What can be asked about one kind of port.

    Args:
        right: the description that the model asks for.
        seen: the port's numbers by name, in float64.
        free: fields that were not stated, in which a port may choose; a base among those of released models.
        note: what an answer adds, as to the order of axes.
    """

    PHRASES: ClassVar[Mapping[str, Callable[[Any, Any], str]]]
    """A function of the wrong and the right description for each field, in the order in which they are said."""
    MEASURED: ClassVar[tuple[str, ...]] = ()
    """Fields whose value may be measured: of two that give the numbers the first that was named is meant."""
    WANTED: ClassVar[str]
    """What to give besides, where the numbers cannot tell two mistakes apart."""

    def __init__(self, right: D, seen: Mapping[str, Array], free: Collection[str] = (), note: str = "") -> None:
        self.right, self.seen, self.free, self.note = right, seen, frozenset(free), note
        self.steps = {name: half_step(values) for name, values in seen.items()}

    @abstractmethod
    def predict(self, port: D, seen: Mapping[str, Array]) -> Iterator[tuple[Array, Array, Array]]:
        """For each array of a port: theirs, what this description gives, and how far they may be apart."""

    @abstractmethod
    def changes(self) -> Iterable[Change]:
        """Every single mistake."""

    @abstractmethod
    def probe(self) -> Mapping[str, Array]:
        """Other inputs than the given ones, at which two descriptions that differ at all give other numbers."""

    @cached_property
    def sketch(self) -> Mapping[str, Array]:
        """A few of the numbers, which nearly every wrong description fails already."""
        return self.seen

    @cached_property
    def single(self) -> list[Change]:
        """The changes that change something, each once."""
        changes = map(dict, dict.fromkeys(tuple(change.items()) for change in self.changes()))
        return [change for change in changes if not vars(self.right).items() >= change.items()]

    def fits(self, port: D) -> bool:
        """Whether this description gives the numbers."""
        try:
            return all(
                bool((np.abs(theirs - ours) <= room).all())
                for seen in (self.sketch, self.seen)
                for theirs, ours, room in self.predict(port, seen)
            )
        except InvalidArgument:  # a change that the library refuses to compute
            return False

    def fitting(self, mistakes: int) -> list[D]:
        """All descriptions with so many mistakes, 0 to 2 in different fields, that give the numbers."""
        result = []
        with np.errstate(all="ignore"):  # of a wrong description: overflow, and pairs that stand still
            for chosen in itertools.combinations(self.single, mistakes):
                fields = {name: value for change in chosen for name, value in change.items()}
                port = replace(self.right, **fields)  # type: ignore[type-var]
                if len(fields) == sum(map(len, chosen)) and self.fits(port):
                    result.append(port)
        return result

    def same(self, one: D, other: D) -> bool:
        """Whether two descriptions are one function, though not one text."""
        with suppress(InvalidArgument):
            pairs = zip(self.predict(one, self.probe()), self.predict(other, self.probe()), strict=True)
            return all(bool((np.abs(a - b) <= 1e-9).all()) for (_, a, _), (_, b, _) in pairs)
        return False

    def wrong(self, port: D) -> dict[str, Any]:
        """The fields that differ from the right description, with the right values."""
        return {name: value for name, value in vars(self.right).items() if getattr(port, name) != value}

    def distinct(self, ports: Iterable[D]) -> list[D]:
        """One of each function, the first that was named; a measured value is meant once."""
        result: dict[Any, D] = {}
        for port in ports:
            measured = {name: value for name, value in self.wrong(port).items() if name in self.MEASURED}
            kind = (replace(port, **measured), *measured) if measured else (port,)  # type: ignore[type-var]
            if kind not in result and not any(self.same(port, other) for other in result.values()):
                result[kind] = port
            if len(result) > SHOWN:
                break
        return list(result.values())

    def is_right(self, port: D) -> bool:
        """Whether it differs in what is free alone."""
        wrong = self.wrong(port)
        return self.free.issuperset(wrong) and ("base" not in wrong or vars(port)["base"] in BASES)

    def words(self, port: D) -> str:
        """What is wrong with a description."""
        wrong = self.wrong(port)
        said = [phrase(port, self.right) for name, phrase in self.PHRASES.items() if name in wrong]
        return ", and ".join(dict.fromkeys(said))

    def explained(self, mistakes: int) -> Diagnosis | None:
        """The answer where so many mistakes give the numbers."""
        fitting = self.fitting(mistakes)
        chosen = next((port for port in fitting if self.is_right(port)), None)
        if chosen is not None:
            words = self.words(chosen)
            text = f"right{words and f': {words}'}; {self._evidence(chosen)}"
            others = self.fitting(1) if not mistakes else []
            if len(others) > len(self.single) / 3:
                also = "; or ".join(map(self.words, self.distinct(others)[:SHOWN]))
                text = f"{text}, as mistakes would that do not show here, such as: {also}. {self.WANTED}"
            return Diagnosis(True, (), text, mistakes)
        found = self.distinct(fitting)
        if not found:
            return None
        causes = tuple(map(self.words, found))
        if len(found) == 1:
            return Diagnosis(False, causes, f"{causes[0]}; {self._evidence(found[0])}", mistakes)
        more = "; or others" if len(found) > SHOWN else ""
        listed = "; or ".join(causes[:SHOWN])
        return Diagnosis(False, causes, f"these numbers cannot tell apart: {listed}{more}. {self.WANTED}", mistakes)

    def unexplained(self) -> Diagnosis:
        """Which numbers differ, and what that usually means."""
        theirs, ours, room = next(iter(self.predict(self.right, self.seen)))
        off = ~(np.abs(theirs - ours) <= room)
        said = f"nothing that was tried gives these numbers: {off.sum():,} of {off.size:,} differ"
        return Diagnosis(False, (), f"{said}; {self.symptoms(off, np.abs(theirs - ours))}", 3)

    def symptoms(self, off: Array, apart: Array) -> str:
        """Where the first array differs, and what that usually means."""
        first = tuple(map(int, np.argwhere(off)[0]))
        return f"first at {list(first)} by {apart[first]:.3g}, by up to {apart.max():.3g}"

    def _evidence(self, port: D) -> str:
        pairs = list(self.predict(port, self.seen))
        worst = max(float(np.abs(theirs - ours).max()) for theirs, ours, _ in pairs)
        return (
            f"this reproduces all {sum(theirs.size for theirs, _, _ in pairs):,} numbers to {worst:.0e}{self.note}"
        )


def diagnosed(subjects: Sequence[Subject[Any]]) -> Diagnosis:
    """The shortest description that gives the numbers of one of them, or what is known of the first."""
    for mistakes in range(3):
        for subject in subjects:
            if (diagnosis := subject.explained(mistakes)) is not None:
                return diagnosis
    return subjects[0].unexplained()


def rounded(values: Array, low: str) -> Array:
    """To 16 bits and back, from float32 as ports have it."""
    result: Array = torch.from_numpy(values.astype(np.float32)).to(LOW[low]).double().numpy()
    return result


def half_step(values: Array) -> float:
    """Half a step of the 16-bit type that all these numbers belong to, relative; 0 for none."""
    found = (step for low, step in HALF_STEP.items() if np.array_equal(rounded(values, low), values))
    return ROUNDINGS * next(found, 0.0)
