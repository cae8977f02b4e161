"""The lessons by their own titles and sections, their rows, and what settles each row here."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

KINDS = ("claim", "page", "room", "test", "view")
"""What may settle a row: its name follows a colon; of a room, ``room/stage``; of a test, ``file::function``."""


@dataclass(frozen=True)
class Section:
    """A section of a lesson under its own heading: ``address`` is its anchor, ``rows`` what it teaches."""

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
    """A row of the lessons; ``by`` holds what settles it, as ``kind:name``; no lessons: other sources teach it."""

    row: str
    what: str
    by: tuple[str, ...]
    lessons: tuple[int, ...] = ()

    def settled_by(self, kind: str) -> tuple[str, ...]:
        """Names of this kind that settle it."""
        return tuple(name for of, _, name in (by.partition(":") for by in self.by) if of == kind)

    @property
    def errs(self) -> bool:
        """Whether a lesson is wrong here, or lessons disagree: such rows are named b1, b2 …, and two otherwise."""
        return self.row.removeprefix("b").isdecimal() or self.row in ("other-free", "other-softer")


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((files("posenc.teaching.lessons") / name).read_text(encoding="utf-8"))


LESSONS = tuple(
    Lesson(
        lesson["title"],
        tuple(
            Section(title, f"lesson-{number}-{place}", tuple(rows))
            for place, (title, *rows) in enumerate(lesson["sections"], 1)
        ),
    )
    for number, lesson in enumerate(_table("lessons.toml")["lessons"])
)
"""The five lessons; each is known by its place, from 0."""
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
    for row, entry in _table("facts.toml").items()
)
"""Every row, in the order of ``facts.toml``."""
BY_ROW = {fact.row: fact for fact in FACTS}
