"""The titles and sections of the lessons, the rows of ``lessons.toml`` (what the lessons say), and the parts of
posenc that cover each row and section.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from posenc.teaching.lessons.card import DECK, Card

EXERCISES = "exercises/"
"""The folder of the exercise pages."""


@dataclass(frozen=True)
class Section:
    """A section of a lesson: its heading, its anchor (``address``), and its rows."""

    title: str
    address: str
    rows: Sequence[str]


@dataclass(frozen=True)
class Lesson:
    """A lesson: its title, and its sections in order."""

    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Fact:
    """A statement or question from a lesson or another source. ``by`` lists what covers it, as ``claim:name``,
    ``page:name`` and ``room:room/stage``.
    """

    row: str
    what: str
    by: Sequence[str]

    def settled_by(self, kind: str) -> tuple[str, ...]:
        """Return the names of this kind in ``by``, such as the names of all claims for the kind ``"claim"``."""
        return tuple(name for of, _, name in (by.partition(":") for by in self.by) if of == kind)

    @property
    def errs(self) -> bool:
        """Whether a lesson is wrong or lessons disagree about this fact, as in the rows ``b1``, ``b2`` …,
        ``other-free`` and ``other-softer`` of ``lessons.toml``.
        """
        return self.row.removeprefix("b").isdecimal() or self.row in ("other-free", "other-softer")


@dataclass(frozen=True)
class Entry:
    """The claims, stages (``room/stage``), exercises, cards and pages in ``docs`` that cover a row."""

    pages: tuple[str, ...]
    claims: tuple[str, ...]
    stages: tuple[str, ...]
    exercises: tuple[str, ...]
    cards: tuple[Card, ...]


TABLE: dict[str, Any] = tomllib.loads(
    (files("posenc.teaching.lessons") / "lessons.toml").read_text(encoding="utf-8")
)
LESSONS = tuple(
    Lesson(
        lesson["title"],
        tuple(
            Section(title, f"lesson-{number}-{place}", rows)
            for place, (title, *rows) in enumerate(lesson["sections"], 1)
        ),
    )
    for number, lesson in enumerate(TABLE["lessons"])
)
"""The five lessons, numbered from 0."""
FACTS = tuple(Fact(row, **entry) for row, entry in TABLE["rows"].items())
"""All rows, in the order of ``lessons.toml``."""
BY_ROW = {fact.row: fact for fact in FACTS}


def entry(fact: Fact) -> Entry:
    """Return the parts of posenc that cover a row, including the claims and stages of the row's cards."""
    cards = tuple(card for card in DECK if fact.row in card.rows)
    pages = fact.settled_by("page")
    return Entry(
        tuple(page for page in pages if not page.startswith(EXERCISES)),
        _once(fact.settled_by("claim"), *(card.claims for card in cards)),
        _once(fact.settled_by("room"), *((card.stage,) for card in cards)),
        tuple(page for page in pages if page.startswith(EXERCISES)),
        cards,
    )


def of_stage(stage: str) -> Entry:
    """Return the pages, claims, exercises and questions about a stage of the lab, ``room/stage``."""
    entries = [entry(fact) for fact in FACTS if stage in fact.settled_by("room")]
    cards = tuple(card for card in DECK if card.stage == stage)
    return Entry(
        _once(*(one.pages for one in entries)),
        _once(*(one.claims for one in entries), *(card.claims for card in cards)),
        (stage,),
        _once(*(one.exercises for one in entries)),
        cards,
    )


def of_section(section: Section) -> list[tuple[Fact, Entry]]:
    """Return the rows of a section, each with the parts of posenc that cover it."""
    return [(BY_ROW[row], entry(BY_ROW[row])) for row in section.rows]


def teaching(row: str) -> list[tuple[Lesson, Section]]:
    """Return every section that contains this row, with its lesson."""
    return [(lesson, section) for lesson in LESSONS for section in lesson.sections if row in section.rows]


def sections(stage: str) -> tuple[Fact, ...]:
    """Return the lesson rows shown by the lab stage ``room/stage``."""
    return tuple(fact for fact in FACTS if stage in fact.settled_by("room") and teaching(fact.row))


def _once(*several: Sequence[str]) -> tuple[str, ...]:
    """Return the items without repetitions, in the order of their first occurrence."""
    return tuple(dict.fromkeys(name for names in several for name in names))
