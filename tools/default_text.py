"""Makes the default text of the language task: ``tools/default_text.py``, once; its hash is held by a test.

It is posenc's own documentation, as it was on the day: pages of prose, and the docstrings of each folder. A later
page or docstring changes nothing of the file, or the numbers of every study would change with it.
"""

import ast
import lzma
from collections.abc import Iterator
from pathlib import Path

from posenc.workbench.tasks.documents import DEFAULT, SEPARATOR

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("models.md", "api.md", "api-integrations.md", "api-workbench.md", "gallery.md")
"""Pages that are long tables, or that a tool writes."""


def documents() -> Iterator[str]:
    """The pages, then the docstrings by folder."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page.name not in LEFT_OUT:
            yield page.read_text(encoding="utf-8")
    source = ROOT / "src" / "posenc"
    for folder in sorted({file.parent for file in source.rglob("*.py")}):
        yield "\n\n".join(each for file in sorted(folder.glob("*.py")) for each in _docstrings(file))


def _docstrings(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield text


if __name__ == "__main__":
    data = SEPARATOR.join(text.strip().encode() for text in documents())
    DEFAULT.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    print(f"{DEFAULT}: {len(data):,} bytes, {DEFAULT.stat().st_size:,} compressed")
