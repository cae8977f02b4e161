"""Generate pages of the docs and files of the lab from the library.

``make pages`` writes all pages and files, and tests compare them with the library's current output.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path

from tools.pages import claims, encodings, lab, lessons

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITER = "make pages"


def shipped_encodings() -> str:
    """Return the table of all encodings, with the models that use them."""
    return encodings.table(tomllib.loads((DOCS / "shipped.toml").read_text(encoding="utf-8")))


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "claims.md": claims.page,
    ROOT / "src/posenc/teaching/claims/kept.json": claims.kept,
    DOCS / "lessons.md": lessons.index_page,
    DOCS / "questions.md": lessons.questions_page,
}
"""The pages that are generated completely."""


def write() -> None:
    """Write every generated page and file of the lab."""
    texts = {path: page() for path, page in PAGES.items()} | lab.files()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
