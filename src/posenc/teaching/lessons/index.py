"""Where each section of a lesson is found here: its pages, claims, stages of the lab, exercises and questions."""

from dataclasses import dataclass

from posenc.teaching.lessons.card import DECK, Card
from posenc.teaching.lessons.facts import BY_ROW, FACTS, LESSONS, Fact, Lesson, Section

EXERCISES = "exercises/"
"""The folder of pages that are exercises."""


@dataclass(frozen=True)
class Entry:
    """One section and its counterparts: names, addresses below ``docs``, and stages as ``room/stage``."""

    what: str
    pages: tuple[str, ...]
    claims: tuple[str, ...]
    stages: tuple[str, ...]
    views: tuple[str, ...]
    exercises: tuple[str, ...]
    cards: tuple[Card, ...]


def entry(fact: Fact) -> Entry:
    """The counterparts of a row, those of its cards included."""
    cards = tuple(card for card in DECK if fact.row in card.rows)
    pages = fact.settled_by("page")
    return Entry(
        fact.what,
        tuple(page for page in pages if not page.startswith(EXERCISES)),
        _once(fact.settled_by("claim"), *(card.claims for card in cards)),
        _once(fact.settled_by("room"), *((card.stage,) for card in cards)),
        fact.settled_by("view"),
        tuple(page for page in pages if page.startswith(EXERCISES)),
        cards,
    )


def of_stage(stage: str) -> Entry:
    """What belongs to a stage of the lab, ``room/stage``: the pages, claims, exercises and questions about it."""
    facts = [fact for fact in FACTS if stage in fact.settled_by("room")]
    cards = tuple(card for card in DECK if card.stage == stage)
    entries = [entry(fact) for fact in facts]
    return Entry(
        stage,
        _once(*(one.pages for one in entries)),
        _once(*(one.claims for one in entries), *(card.claims for card in cards)),
        (stage,),
        _once(*(one.views for one in entries)),
        _once(*(one.exercises for one in entries)),
        cards,
    )


def of_section(section: Section) -> list[tuple[Fact, Entry]]:
    """The rows of a section, each with its counterparts."""
    return [(BY_ROW[row], entry(BY_ROW[row])) for row in section.rows]


def teaching(row: str) -> list[tuple[Lesson, Section]]:
    """Every section that teaches a row, with its lesson."""
    return [(lesson, section) for lesson in LESSONS for section in lesson.sections if row in section.rows]


def teaching_claim(name: str) -> list[tuple[Lesson, Section]]:
    """Every section with a row that a claim settles, with its lesson."""
    rows = {fact.row for fact in FACTS if name in entry(fact).claims}
    return [(lesson, section) for lesson in LESSONS for section in lesson.sections if rows & {*section.rows}]


def sections(stage: str) -> tuple[Fact, ...]:
    """The rows of the lessons that a stage of the lab, ``room/stage``, shows."""
    return tuple(fact for fact in FACTS if fact.lessons and stage in fact.settled_by("room"))


def _once(*several: tuple[str, ...]) -> tuple[str, ...]:
    """All of them, each where it comes first."""
    return tuple(dict.fromkeys(name for names in several for name in names))
