"""The search that `posenc doctor` runs. It looks for the fewest mistakes that reproduce a port's numbers.

A description of a port is a frozen dataclass in which each field is a decision that a port can get wrong. The right
description is tried first, then all descriptions with one change from a list, then all descriptions with two
changes. The port may also have a mistake that is not in the list, which no answer can name.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument

Array = NDArray[Any]
Rows = Mapping[str, Array]
"""Numbers of a port, one row per position, pair, head or offset: arrays of equal length, by name.

The name of the first array, such as ``position``, shows what the rows stand for. The array ``y`` contains the
port's numbers, and ``step`` is the relative error of 16-bit arithmetic. A description of the port predicts ``y``
from the other arrays.
"""
Change = dict[str, Any]
"""A mistake of a port, as a dictionary from the names of fields of its description to wrong values."""
LOW = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
"""The relative error of one rounding to each 16-bit type."""
CLOSE = 2.0**-20
"""The relative tolerance for frequencies computed with exp and log: sixteen times the rounding error of float32."""
ROUNDINGS = 6
"""The number of roundings per result in 16-bit arithmetic: both products, their sum, cos, sin and the input."""
BASES = (1e4, 1e5, 150_000.0, 160_000.0, 5e5, 1e6, 5e6, 8e6, 1e7)
"""Bases of released models, which a port may have copied."""
SHOWN = 3
"""The maximum number of mistakes that an answer names if each of them alone reproduces the port's numbers."""
UNMEASURED = {"base": None, "factor": None}
"""Fields that may be measured from a port's numbers. If two measured values fit, the answer names the first."""


@dataclass(frozen=True)
class Diagnosis:
    """The answer of ``posenc doctor`` for a port.

    Args:
        right: whether the port computes the right numbers.
        causes: the mistakes, in words. There are several if each of them alone explains the port's numbers, and
            none if the port is right or if no mistake that was tried explains its numbers.
        text: the answer, in one or two sentences.
    """

    right: bool
    causes: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Expected:
    """The positional encoding that a port should compute.

    Args:
        recipe: the encoding, with all its settings.
        free: settings that a port may choose.
        ladders: the base and the frequencies of each layer type of the model, by the name of the type.
        lengths: the lengths in the model's config; the longest allowed input is last.
        layer_type: the type of the layers with this encoding; empty if there is no model.
        indices: the indices of these layers; empty if there is no model.
        unrotated: the indices of the layers without positional encoding.
        rotates: whether vectors are rotated, as queries and keys are in rotary layers.
        query_dim: the number of channels of a query in latent attention, where only the last head_dim channels
            rotate; None in other layers.
    """

    recipe: Recipe
    free: frozenset[str] = frozenset()
    ladders: Mapping[str, tuple[float, tuple[float, ...]]] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    layer_type: str = ""
    indices: tuple[int, ...] = ()
    unrotated: tuple[int, ...] = ()
    rotates: bool = True
    query_dim: int | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of port, with the functions for finding its mistakes. A description of a port is a dataclass with a
    field for each choice that the port makes.

    Args:
        right: a function that returns the right description, given the ``Expected`` and the port's arrays. Sizes
            that the ``Expected`` lacks, such as head_dim, are taken from the shapes of the arrays. The description
            has a method ``predict(rows)``, which returns a prediction of ``rows["y"]`` and its tolerance.
        forms: the sets of arrays that a port may return. Each key is a tuple of names of arrays; its value is a
            function that returns the rows of these arrays, given the right description and the arrays.
        probe: a function that returns rows for which any two different descriptions predict different numbers.
        mistakes: a function that returns all single changes to try, given the right description, the port's rows
            and the ``Expected``.
        phrases: for each field, a function that puts a change of this field into words, given the wrong and the
            right description. If a change has several fields, they are named in the order of this dict.
        wanted: what else to pass if the numbers fit several mistakes.
        plausible: a fast filter, applied before changes are compared one at a time: a function that returns a list
            of changes without most of those that do not reproduce the numbers, given the ``Search`` and the list.
        free: the settings that a port may choose if the encoding's string omits them. Each value consists of the
            description's field for the setting, and of a function that returns whether a choice is allowed, given
            the choice and the right description.
    """

    right: Callable[[Expected, Mapping[str, Array]], Any]
    forms: Mapping[tuple[str, ...], Callable[..., Rows]]
    probe: Callable[[Any], Rows]
    mistakes: Callable[[Any, Sequence[Rows], Expected], Iterable[Change]]
    phrases: Mapping[str, Callable[[Any, Any], str]]
    wanted: str
    plausible: Callable[["Search", Sequence[Change]], Iterable[Change]] = lambda search, changes: changes
    free: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = field(default_factory=dict)


def each(**values: Iterable[Any]) -> list[Change]:
    """Return a change for every value of every field."""
    return [{name: value} for name, drawn in values.items() for value in drawn]


class Search:
    """A search for the mistakes of one port.

    Args:
        kind: the kind of the port.
        expected: the encoding that the port should compute.
        numbers: the port's numbers in float64, by name.
        note: a remark that answers include, such as the order of axes.
    """

    def __init__(self, kind: Kind, expected: Expected, numbers: Mapping[str, Array], note: str = "") -> None:
        self.kind, self.expected, self.note = kind, expected, note
        self.right = kind.right(expected, numbers)
        self.probe = kind.probe(self.right)
        self.rows = [
            rows(self.right, *map(numbers.__getitem__, names))
            for names, rows in kind.forms.items()
            if numbers.keys() >= set(names)
        ]

    @cached_property
    def single(self) -> list[Change]:
        """The distinct mistakes that change a field of the right description."""
        mistakes = (
            {name: value for name, value in change.items() if value != getattr(self.right, name)}
            for change in self.kind.mistakes(self.right, self.rows, self.expected)
        )
        return list(map(dict, dict.fromkeys(tuple(change.items()) for change in mistakes if change)))

    @property
    def choices(self) -> list[Change]:
        """The choices of settings that the port may choose. They do not count as mistakes. The base is tried as a
        mistake, because many values are allowed.
        """
        allowed = filter(self.is_right, self.single)
        return [{}, *(change for change in allowed if "base" not in change and "pair" not in self.rows[0])]

    def compare(self, change: Change, rows: Rows) -> tuple[Array, Array]:
        """Return the error of each number predicted with this change, and whether the error is too large."""
        ours, room = replace(self.right, **change).predict(rows)
        apart = np.where(np.isnan(rows["y"]) & np.isnan(ours), 0.0, np.abs(rows["y"] - ours))
        return apart, ~((apart <= room) & np.isfinite(apart))

    def fits(self, change: Change) -> bool:
        """Return whether the right description with this change reproduces the port's numbers."""
        with suppress(InvalidArgument):  # the library refuses to compute this change
            return not any(self.compare(change, rows)[1].any() for rows in self.rows)
        return False

    @np.errstate(all="ignore")  # wrong descriptions may overflow or not rotate some pairs
    def fitting(self, mistakes: int, choice: Change) -> list[Change]:
        """Return all changes that combine a choice with ``mistakes`` mistakes (0 to 2, all in different fields) and
        reproduce the port's numbers. If one of these changes contains another, only the smaller one is returned.
        """
        chosen = ((choice, *changes) for changes in itertools.combinations(self.single, mistakes))
        merged = ((changes, {k: v for change in changes for k, v in change.items()}) for changes in chosen)
        disjoint = [fields for changes, fields in merged if len(fields) == sum(map(len, changes))]
        fits = list(filter(self.fits, self.kind.plausible(self, disjoint)))
        return [change for change in fits if not any(other.items() < change.items() for other in fits)]

    def same(self, change: Change, other: Change) -> bool:
        """Return whether two changes predict the same numbers for the probe, or differ only in the fields of
        ``UNMEASURED``, whose values may be measured from the port's numbers.
        """
        ours, theirs = (replace(self.right, **fields).predict(self.probe)[0] for fields in (change, other))
        return change | UNMEASURED == other | UNMEASURED or np.allclose(ours, theirs, rtol=0, atol=1e-7)

    def distinct(self, changes: Iterable[Change]) -> list[Change]:
        """Return the changes that are not the ``same`` as an earlier one, but at most the first ``SHOWN`` + 1."""
        chosen: list[Change] = []
        for change in changes:
            if len(chosen) <= SHOWN and not any(self.same(change, other) for other in chosen):
                chosen.append(change)
        return chosen

    def is_right(self, change: Change) -> bool:
        """Return whether a change concerns only settings that a port may choose."""
        free = dict(self.kind.free[setting] for setting in self.expected.free)
        return all(name in free and free[name](value, self.right) for name, value in change.items())

    def words(self, change: Change) -> str:
        """Describe a change in words. Settings that a port may choose are not compared with the right ones."""
        port, free = replace(self.right, **change), self.is_right(change)
        phrases = (phrase(port, self.right) for name, phrase in self.kind.phrases.items() if name in change)
        return ", and ".join(dict.fromkeys(words.partition(" instead")[0] if free else words for words in phrases))

    def accepted(self, choice: Change) -> str:
        """Return the end of an answer that describes the choice, if there is one, in words."""
        return f"; accepted: {self.words(choice)}" * bool(choice)

    @np.errstate(all="ignore")  # wrong descriptions may overflow or not rotate some pairs
    def explained(self, mistakes: int, choice: Change) -> Diagnosis | None:
        """Return the diagnosis if the choice and ``mistakes`` mistakes (0 to 2) explain the numbers, else None."""
        fitting = self.fitting(mistakes, choice)
        right = list(filter(self.is_right, fitting))[:1]
        chosen = right or self.distinct(fitting)
        causes = tuple(self.words(dict(change.items() - choice.items())) for change in chosen)
        text = "; or ".join(causes[:SHOWN]) + "; or others" * (len(chosen) > SHOWN)
        if len(chosen) != 1:
            text = f"these numbers fit several mistakes: {text}. {self.kind.wanted}"
            return Diagnosis(False, causes, text) if chosen else None
        apart = np.concatenate([self.compare(chosen[0], rows)[0].ravel() for rows in self.rows])
        text += (
            f"; this reproduces all {apart.size:,} numbers "
            + (f"to {apart.max():.0e}" if apart.any() else "exactly")
            + self.note
            + self.accepted(choice)
        )
        hidden = (
            [change for change in self.fitting(1, choice) if not self.same(change, choice)]
            if right and not mistakes
            else []
        )
        if len(hidden) > len(self.single) / 8:
            also = "; or ".join(map(self.words, self.distinct(hidden)[:SHOWN]))
            text = f"{text}, but so would mistakes that do not show here, such as: {also}. {self.kind.wanted}"
        return Diagnosis(
            bool(right), () if right else causes, f"right{': ' * bool(causes[0])}" * bool(right) + text
        )

    def unexplained(self) -> Diagnosis:
        """Return a diagnosis that states which numbers differ, where they start to differ, and the usual cause. Of
        all choices, the one with which the fewest numbers differ is taken.
        """
        choice = min(
            self.choices, key=lambda choice: sum(self.compare(choice, rows)[1].sum() for rows in self.rows)
        )
        compared = ((rows, *self.compare(choice, rows)) for rows in self.rows)
        rows, apart, off = next(numbers for numbers in compared if numbers[2].any())
        count, wrong, columns = next(iter(rows)), off.any(1), np.flatnonzero(off.any(0))
        place = rows[count][:, 0]
        first, most = int(place[wrong].min()), int(place[apart.max(1).argmax()])
        agreeing = int(max(place[~wrong], default=0))
        usual = {
            "some of the port's numbers are not finite": not np.isfinite(rows["y"]).all(),
            "the port's numbers are all zero": not rows["y"].any(),
            "": count != "position",
            "position 0 has no rotation, so check the factor, the order of channels and the input": first == 0,
            "positions that are equal on all axes agree: check the sections and the order of the axes": (
                np.ptp(rows[count], axis=1).any() and not off[np.ptp(rows[count], axis=1) == 0].any()
            ),
            f"positions up to {agreeing:,} agree: a table ends there, or positions have 16 bits": (
                1 < agreeing < first
            ),
            f"only columns {columns[0]} to {columns[-1]} differ: check the scaling of frequencies, and the axes": (
                len(columns) <= off.shape[1] // 2
            ),
            "most columns differ: check the frequencies, and the pairs of channels": True,
        }
        means = next(f"; {words}" * bool(words) for words, applies in usual.items() if applies)
        return Diagnosis(
            False,
            (),
            f"nothing that was tried gives these numbers{self.note}: {off.sum():,} of {off.size:,} differ, "
            f"starting at {count} {first:,}, by up to {apart.max():.3g} at {count} {most:,}"
            + means
            + self.accepted(choice),
        )


def diagnosed(searches: Sequence[Search]) -> Diagnosis:
    """Return the diagnosis with the fewest mistakes, at most 2, that explains the port's numbers. If there is none,
    return a diagnosis that describes how the numbers differ from the right ones.
    """
    tried = (
        [search.explained(mistakes, choice) for search in searches for choice in search.choices]
        for mistakes in range(3)
    )
    answers = filter(None, next(filter(any, tried), []))
    return max(answers, key=lambda answer: answer.right, default=None) or searches[0].unexplained()


def rounded(values: Array, dtype: str) -> Array:
    """Round values to float32, as ports do, then to this type, and convert them back to float32."""
    return torch.from_numpy(values.astype(np.float32)).to(getattr(torch, dtype)).float().numpy()


def step(values: Array) -> Array:
    """Return the relative error of 16-bit arithmetic for rows whose numbers are all exact in bfloat16 or all exact
    in float16, and 0 for other rows.
    """
    return ROUNDINGS * np.maximum(
        *((rounded(values, low) == values).all(-1, keepdims=True) * half for low, half in LOW.items())
    )
