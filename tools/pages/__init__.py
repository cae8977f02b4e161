"""Every file that posenc writes about itself: pages of docs, tables between the marks of pages, files of the lab.

``make pages`` writes them all. The tests compare each with what the library says today.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from tools.pages import claims, encodings, lab, lessons, settings

from posenc.errors import InvalidArgument

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITER = "make pages"


def shipped_encodings() -> str:
    """The table of all encodings, with who ships them."""
    return encodings.table(tomllib.loads((DOCS / "shipped.toml").read_text(encoding="utf-8")))


TABLES: dict[Path, dict[str, Callable[[], str]]] = {
    DOCS / "studies.md": {"presets": settings.presets, "settings": settings.settings},
}
"""The tables within pages that people write, by their marks."""
PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "claims.md": claims.page,
    ROOT / "src/posenc/teaching/claims/kept.json": claims.kept,
    DOCS / "lessons.md": lessons.index_page,
    DOCS / "questions.md": lessons.questions_page,
}
"""Pages that are generated as a whole."""


def filled(path: Path) -> str:
    """The page with each of its tables computed again."""
    text = path.read_text(encoding="utf-8")
    for mark, table in TABLES[path].items():
        text = between(text, mark, table())
    return text


def between(text: str, mark: str, table: str) -> str:
    """The text with the table between ``<!-- mark -->`` and ``<!-- /mark -->``, each on a line of its own."""
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    text, count = pattern.subn(lambda marks: f"{marks[1]}\n{table.rstrip()}\n\n{marks[2]}", text)
    if count != 1:
        raise InvalidArgument(f"{count} places between <!-- {mark} --> and <!-- /{mark} -->; give the page one")
    return text


def write() -> None:
    """Write every page, table and file of the lab."""
    texts = {path: filled(path) for path in TABLES}
    texts |= {path: page() for path, page in PAGES.items()} | lab.files()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
