"""The search behind `posenc doctor`: which description of a port gives its numbers, the shortest first.

A description is a frozen dataclass; each field is one thing that a port can get wrong. The right one comes first,
then every description that differs from it by one named change, then by two. Words are made from the fields that
differ, so that an answer can say nothing but what was tried.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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


class Subject(ABC, Generic[D]):
    """What can be asked about one kind of port.

    Args:
        right: the description that the model asks for.
        seen: the port's numbers by name, in float64.
        free: fields that nobody stated, in which a port may choose.
    """

    PHRASES: ClassVar[Mapping[str, Callable[[Any, Any], str]]]
    """A function of the wrong and the right description for each field, in the order in which they are said."""
    MEASURED: ClassVar[tuple[str, ...]] = ()
    """Fields whose value may be measured: of two that give the numbers the first that was named is meant."""
    WANTED: ClassVar[str]
    """What to give besides, where the numbers cannot tell two mistakes apart."""
    USUAL: ClassVar[Mapping[str, Collection[float]]] = {}
    """Values of such fields that a port may choose where nobody stated one."""

    def __init__(self, right: D, seen: Mapping[str, Array], free: Collection[str] = ()) -> None:
        self.right, self.seen, self.free = right, seen, frozenset(free)
        self.note = ""
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
    def single(self) -> list[dict[str, Any]]:
        """The changes that change something."""
        changes = [dict(change) for change in self.changes()]
        return [c for c in changes if any(getattr(self.right, name) != value for name, value in c.items())]

    def candidates(self, mistakes: int) -> Iterator[D]:
        """All descriptions with so many mistakes, 0 to 2, in different fields."""
        for chosen in itertools.combinations(self.single, mistakes):
            names = [name for change in chosen for name in change]
            if len(set(names)) == len(names):
                yield replace(self.right, **{k: v for change in chosen for k, v in change.items()})  # type: ignore[type-var]

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

    def same(self, one: D, other: D) -> bool:
        """Whether two descriptions are one function, though not one text."""
        try:
            pairs = zip(self.predict(one, self.probe()), self.predict(other, self.probe()), strict=True)
            return all(bool((np.abs(a - b) <= 1e-9).all()) for (_, a, _), (_, b, _) in pairs)
        except InvalidArgument:
            return False

    def distinct(self, ports: Iterable[D]) -> list[D]:
        """One of each function, the first that was named; a measured value is meant once."""
        result: list[D] = []
        meant: set[tuple[D, tuple[str, ...]]] = set()
        for port in ports:
            measured = tuple(name for name in self.MEASURED if getattr(port, name) != getattr(self.right, name))
            kind = replace(port, **{name: getattr(self.right, name) for name in measured}), measured  # type: ignore[type-var]
            if (measured and kind in meant) or any(self.same(port, other) for other in result):
                continue
            meant.add(kind)
            result.append(port)
            if len(result) > SHOWN:
                break
        return result

    def is_right(self, port: D) -> bool:
        """Whether it differs in what is free alone."""
        names = [name for name, value in vars(self.right).items() if getattr(port, name) != value]
        usual = (getattr(port, name) in self.USUAL.get(name, ()) for name in names if name in self.MEASURED)
        return self.free.issuperset(names) and all(usual)

    def words(self, port: D) -> str:
        """What is wrong with a description."""
        differing = [name for name in self.PHRASES if getattr(port, name) != getattr(self.right, name)]
        return ", and ".join(dict.fromkeys(self.PHRASES[name](port, self.right) for name in differing))

    def fitting(self, mistakes: int) -> list[D]:
        """All descriptions with so many mistakes that give the numbers."""
        with np.errstate(all="ignore"):  # of a wrong description: overflow, and pairs that stand still
            return [port for port in self.candidates(mistakes) if self.fits(port)]

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
