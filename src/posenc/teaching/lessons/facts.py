"""The rows of the lessons: which lessons teach each, and what settles it here."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

KINDS = ("claim", "page", "room", "test", "view")
"""What may settle a row: its name follows a colon; of a room, ``room/stage``; of a test, ``file::function``."""


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


def _read() -> tuple[Fact, ...]:
    rows = tomllib.loads((files("posenc.teaching.lessons") / "facts.toml").read_text(encoding="utf-8"))
    return tuple(
        Fact(row, entry["what"], tuple(entry["by"]), tuple(entry.get("lessons", ()))) for row, entry in rows.items()
    )


FACTS = _read()
"""Every row, in the order in which lessons teach."""
