"""The search behind `posenc doctor` for the shortest description that gives a port's numbers.

A description is a frozen dataclass; each field is a decision that a port can get wrong. The right description is
tried first, then all that differ from it by one named change, then by two. Answers are worded from the fields that
differ, so they state only what was tried.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument

Array = NDArray[Any]
Rows = Mapping[str, Array]
"""Numbers of a port, one row per position, pair, head or offset: arrays of equal length, by name.

The first array is what the rows are counted by, ``y`` the port's numbers, and ``step`` the relative error of 16-bit
arithmetic; others are what a description computes ``y`` from.
"""
Change = dict[str, Any]
"""One mistake: fields of a description with their wrong values."""
LOW = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
"""The 16-bit types, and the relative error of a rounding to each."""
CLOSE = 2.0**-20
"""Sixteen roundings of float32: the tolerance of a frequency computed by exp and log."""
ROUNDINGS = 6
"""Roundings of 16-bit arithmetic in one number: both products, their sum, cos, sin and the input."""
BASES = (1e4, 1e5, 150_000.0, 160_000.0, 5e5, 1e6, 5e6, 8e6, 1e7)
"""Bases of released models, which a port may have copied."""
SHOWN = 3
"""The most causes that an answer lists if the numbers cannot tell them apart."""
UNMEASURED = {"base": None, "factor": None}
"""Fields whose value may be measured: of two values that give the numbers the first that was named is meant."""


class Description(Protocol):
    """A port as somebody computes it."""

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        """``y`` as this description gives it, and how far the port's may be from it."""


@dataclass(frozen=True)
class Diagnosis:
    """The explanation of a port's numbers.

    Args:
        right: whether the right description gives them.
        causes: the mistakes, in words; several if these numbers cannot tell them apart, none if nothing that was
            tried gives the numbers.
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
        free: settings that a port may choose.
        ladders: base and frequencies of all layer types of the model, by name.
        lengths: those that the model's config states, the admitted one last.
        layer: the number of the first layer that has it, and its layer type; empty for an encoding's text.
    """

    recipe: Recipe
    free: frozenset[str] = frozenset()
    ladders: Mapping[str, tuple[float, tuple[float, ...]]] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    layer: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Kind:
    """One kind of port, and what can be asked about it.

    Args:
        right: the description that is asked for, and the port's numbers by name, which may state sizes.
        forms: what a port may give, by the names of arrays that belong together: the rows of each.
        probe: rows at which two descriptions that differ at all give other numbers.
        mistakes: every single change of the right description, for a port of these rows.
        phrases: a function of the wrong and the right description for each field, in the order of a sentence.
        wanted: what to give besides, where the numbers cannot tell two mistakes apart.
        free: what a port may choose if an encoding's text does not state a setting: the field, and a function of
            its value and the right description that says whether the value is allowed.
    """

    right: Callable[[Expected, Mapping[str, Array]], Description]
    forms: Mapping[tuple[str, ...], Callable[..., Rows]]
    probe: Callable[[Any], Rows]
    mistakes: Callable[[Any, Sequence[Rows], Expected], Iterable[Change]]
    phrases: Mapping[str, Callable[[Any, Any], str]]
    wanted: str
    free: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = field(default_factory=dict)


def each(**values: Iterable[Any]) -> list[Change]:
    """One change per value of a field."""
    return [{name: value} for name, drawn in values.items() for value in drawn]


class Search:
    """What is asked about one port.

    Args:
        expected: the encoding.
        numbers: the port's, by name, in float64.
        note: a remark for answers, such as on the order of axes.
    """

    def __init__(self, kind: Kind, expected: Expected, numbers: Mapping[str, Array], note: str = "") -> None:
        self.kind, self.expected, self.note = kind, expected, note
        self.right = kind.right(expected, numbers)
        self.rows = [
            rows(self.right, *map(numbers.__getitem__, names))
            for names, rows in kind.forms.items()
            if numbers.keys() >= set(names)
        ]
        self.sketch = [  # a few rows, from the first to the last
            {name: values[np.linspace(0, len(values) - 1, 4).astype(int)] for name, values in rows.items()}
            for rows in self.rows
        ]

    @cached_property
    def single(self) -> list[Change]:
        """The mistakes that change something, each once."""
        mistakes = (
            {name: value for name, value in change.items() if value != getattr(self.right, name)}
            for change in self.kind.mistakes(self.right, self.rows, self.expected)
        )
        return list(map(dict, dict.fromkeys(tuple(change.items()) for change in mistakes if change)))

    def compare(self, change: Change, rows: Rows) -> tuple[Array, Array]:
        """How far a port's numbers are from those of this change, and which are too far."""
        ours, room = replace(self.right, **change).predict(rows)  # type: ignore[type-var]
        apart = np.abs(rows["y"] - ours)
        return apart, ~(apart <= room)

    def fits(self, change: Change) -> bool:
        """Whether this change gives the numbers; a few rows come first, which nearly every wrong one fails."""
        with suppress(InvalidArgument):  # the library refuses to compute this change
            return not any(self.compare(change, rows)[1].any() for rows in (*self.sketch, *self.rows))
        return False

    def fitting(self, mistakes: int) -> list[Change]:
        """All changes by this many mistakes (0 to 2, in different fields) that give the numbers."""
        chosen = itertools.combinations(self.single, mistakes)
        merged = ((changes, {k: v for change in changes for k, v in change.items()}) for changes in chosen)
        disjoint = (fields for changes, fields in merged if len(fields) == sum(map(len, changes)))
        return list(filter(self.fits, disjoint))

    def minimal(self, change: Change) -> bool:
        """Whether no part of it can be left out."""
        return not any(self.fits({k: v for k, v in change.items() if k != name}) for name in change)

    def same(self, change: Change, other: Change) -> bool:
        """Whether two changes make the same function, up to a measured value."""
        ports = (replace(self.right, **fields) for fields in (change, other))  # type: ignore[type-var]
        ours, theirs = (port.predict(self.kind.probe(self.right))[0] for port in ports)
        return change | UNMEASURED == other | UNMEASURED or bool((np.abs(ours - theirs) <= 1e-9).all())

    def distinct(self, changes: Iterable[Change]) -> list[Change]:
        """The first change of each distinct function; one more than are shown."""
        chosen: list[Change] = []
        for change in changes:
            if len(chosen) <= SHOWN and not any(self.same(change, other) for other in chosen):
                chosen.append(change)
        return chosen

    def is_right(self, change: Change) -> bool:
        """Whether it changes only what a port may choose."""
        free = dict(self.kind.free[setting] for setting in self.expected.free)
        return all(name in free and free[name](value, self.right) for name, value in change.items())

    def words(self, change: Change) -> str:
        """The mistakes of a change, in words."""
        port = replace(self.right, **change)  # type: ignore[type-var]
        phrases = (phrase(port, self.right) for name, phrase in self.kind.phrases.items() if name in change)
        return ", and ".join(dict.fromkeys(phrases))

    @np.errstate(all="ignore")  # of a wrong description: overflow, and pairs that stand still
    def explained(self, mistakes: int) -> Diagnosis | None:
        """The answer if these descriptions give the numbers."""
        fitting = list(filter(self.minimal, self.fitting(mistakes)))
        right = list(filter(self.is_right, fitting))[:1]
        chosen = right or self.distinct(fitting)
        causes = tuple(map(self.words, chosen))
        text = "; or ".join(causes[:SHOWN]) + "; or others" * (len(chosen) > SHOWN)
        if len(chosen) != 1:
            text = f"these numbers cannot tell apart: {text}. {self.kind.wanted}"
            return Diagnosis(False, causes, text) if chosen else None
        apart = np.concatenate([self.compare(chosen[0], rows)[0].ravel() for rows in self.rows])
        text = f"{text}; this reproduces all {apart.size:,} numbers to {apart.max():.0e}{self.note}"
        opening = f"right{': ' * bool(causes[0])}" if right else ""
        hidden = self.fitting(1) if right and not mistakes else []
        if len(hidden) > len(self.single) / 3:
            also = "; or ".join(map(self.words, self.distinct(hidden)[:SHOWN]))
            text = f"{text}, but so would mistakes that do not show here, such as: {also}. {self.kind.wanted}"
        return Diagnosis(bool(right), () if right else causes, opening + text)

    def unexplained(self) -> Diagnosis:
        """Which numbers differ, from where on, and what that usually means."""
        compared = ((rows, *self.compare({}, rows)) for rows in self.rows)
        rows, apart, off = next(numbers for numbers in compared if numbers[2].any())
        count, wrong, columns = next(iter(rows)), off.any(1), np.flatnonzero(off.any(0))
        place = rows[count][:, 0]
        first, most = int(place[wrong].min()), int(place[apart.max(1).argmax()])
        agreeing = int(max(place[~wrong], default=0))
        usual = {
            "position 0 has no rotation, so check the factor, the order of channels and the input": first == 0,
            f"positions up to {agreeing:,} agree: a table ends there, or positions have 16 bits": (
                1 < agreeing < first
            ),
            f"only columns {columns[0]} to {columns[-1]} differ: a scaling of some frequencies, or an axis": (
                len(columns) <= off.shape[1] // 2
            ),
            "most columns differ: other frequencies, or other pairs of channels": True,
        }
        means = next(words for words, applies in usual.items() if applies)
        return Diagnosis(
            False,
            (),
            f"nothing that was tried gives these numbers: {off.sum():,} of {off.size:,} differ; from {count} "
            f"{first:,} on, by up to {apart.max():.3g} at {count} {most:,}" + f"; {means}" * (count == "position"),
        )


def diagnosed(searches: Sequence[Search]) -> Diagnosis:
    """The shortest description that gives the numbers of one of the searches, or an answer about the first."""
    tried = (search.explained(mistakes) for mistakes in range(3) for search in searches)
    return next(filter(None, tried), None) or searches[0].unexplained()


def rounded(values: Array, dtype: str) -> Array:
    """To this type and back to float32, from float32 as ports have it."""
    return torch.from_numpy(values.astype(np.float32)).to(getattr(torch, dtype)).float().numpy()


def step(values: Array) -> Array:
    """The relative error of 16-bit arithmetic for rows whose numbers all have 16 bits; 0 for others."""
    steps = [(rounded(values, low) == values).all(-1, keepdims=True) * half for low, half in LOW.items()]
    return ROUNDINGS * np.maximum(*steps)
