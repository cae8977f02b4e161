"""The titles, sections and rows of the lessons, and where posenc covers each row and section."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from posenc.teaching.lessons.card import DECK, Card

KINDS = ("claim", "page", "room")
"""The kinds of things that settle a row. In the data, a colon and the name follow (for a room, ``room/stage``)."""
EXERCISES = "exercises/"
"""The folder of the exercise pages."""


@dataclass(frozen=True)
class Section:
    """A section of a lesson with its heading; ``address`` is its anchor, ``rows`` are its facts."""

    title: str
    address: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Lesson:
    """A lesson by its own title, with its sections in order."""

    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Fact:
    """A row of the lessons; ``by`` lists what settles it, as ``kind:name``. A row of no lesson comes from another
    source."""

    row: str
    what: str
    by: tuple[str, ...]
    lessons: tuple[int, ...] = ()

    def settled_by(self, kind: str) -> tuple[str, ...]:
        """The names of everything of this kind that settles the row."""
        return tuple(name for of, _, name in (by.partition(":") for by in self.by) if of == kind)

    @property
    def errs(self) -> bool:
        """Whether a lesson is wrong or lessons disagree. Such rows are named b1, b2 …, with two exceptions."""
        return self.row.removeprefix("b").isdecimal() or self.row in ("other-free", "other-softer")


@dataclass(frozen=True)
class Entry:
    """What covers a row: names of claims, addresses in ``docs``, stages as ``room/stage``, and cards."""

    what: str
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
            Section(title, f"lesson-{number}-{place}", tuple(rows))
            for place, (title, *rows) in enumerate(lesson["sections"], 1)
        ),
    )
    for number, lesson in enumerate(TABLE["lessons"])
)
"""The five lessons; each is numbered by its place, starting at 0."""
FACTS = tuple(
    Fact(
        row,
        entry["what"],
        tuple(entry["by"]),
        tuple(
            number
            for number, lesson in enumerate(LESSONS)
            if any(row in section.rows for section in lesson.sections)
        ),
    )
    for row, entry in TABLE["rows"].items()
)
"""Every row, in the order of ``lessons.toml``."""
BY_ROW = {fact.row: fact for fact in FACTS}


def entry(fact: Fact) -> Entry:
    """What covers a row, including what its cards refer to."""
    cards = tuple(card for card in DECK if fact.row in card.rows)
    pages = fact.settled_by("page")
    return Entry(
        fact.what,
        tuple(page for page in pages if not page.startswith(EXERCISES)),
        _once(fact.settled_by("claim"), *(card.claims for card in cards)),
        _once(fact.settled_by("room"), *((card.stage,) for card in cards)),
        tuple(page for page in pages if page.startswith(EXERCISES)),
        cards,
    )


def of_stage(stage: str) -> Entry:
    """The pages, claims, exercises and questions about a stage of the lab, given as ``room/stage``."""
    facts = [fact for fact in FACTS if stage in fact.settled_by("room")]
    cards = tuple(card for card in DECK if card.stage == stage)
    entries = [entry(fact) for fact in facts]
    return Entry(
        stage,
        _once(*(one.pages for one in entries)),
        _once(*(one.claims for one in entries), *(card.claims for card in cards)),
        (stage,),
        _once(*(one.exercises for one in entries)),
        cards,
    )


def of_section(section: Section) -> list[tuple[Fact, Entry]]:
    """The rows of a section, each with what covers it."""
    return [(BY_ROW[row], entry(BY_ROW[row])) for row in section.rows]


def teaching(row: str) -> list[tuple[Lesson, Section]]:
    """Every section that teaches a row, with its lesson."""
    return [(lesson, section) for lesson in LESSONS for section in lesson.sections if row in section.rows]


def teaching_claim(name: str) -> list[tuple[Lesson, Section]]:
    """Every section with a row that a claim settles, with its lesson."""
    rows = {fact.row for fact in FACTS if name in entry(fact).claims}
    return [(lesson, section) for lesson in LESSONS for section in lesson.sections if rows & {*section.rows}]


def sections(stage: str) -> tuple[Fact, ...]:
    """The rows of the lessons that a stage of the lab, given as ``room/stage``, shows."""
    return tuple(fact for fact in FACTS if fact.lessons and stage in fact.settled_by("room"))


def _once(*several: tuple[str, ...]) -> tuple[str, ...]:
    """The items without repetitions, in order of first occurrence."""
    return tuple(dict.fromkeys(name for names in several for name in names))
