"""Check, in `make lint`, that ``src`` has no more code statements than ratchet.txt allows.

Statements are counted as Python parses them, including nested ones. Docstrings and imports do not count, so
documentation and small files cost nothing. If you delete code, lower the number. Raise it only in a separate commit
that says what the user gets for it.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUMBER = Path(__file__).with_suffix(".txt")
SLACK = 30
"""The largest excess of the number over the count, so that deleting a few lines requires no change."""


def statements(source: str) -> int:
    """Return the number of statements other than docstrings and imports."""
    return sum(isinstance(node, ast.stmt) and not _is_free(node) for node in ast.walk(ast.parse(source)))


def _is_free(node: ast.stmt) -> bool:
    is_text = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return is_text or isinstance(node, ast.Import | ast.ImportFrom)


def count(folder: Path) -> int:
    """Return the number of code statements in all Python files below a folder."""
    return sum(statements(file.read_text()) for file in folder.rglob("*.py"))


def complaint(counted: int, allowed: int) -> str | None:
    """Return what is wrong with the number in ratchet.txt for this count, or None."""
    if counted > allowed:
        return (
            f"src has {counted:,} code statements and {NUMBER.name} allows {allowed:,}; delete "
            f"{counted - allowed}, or raise the number in a commit of its own that says what the user gets"
        )
    if allowed > counted + SLACK:
        return f"src has {counted:,} code statements and {NUMBER.name} allows {allowed:,}; lower it to {counted}"
    return None


if __name__ == "__main__":
    sys.exit(complaint(count(ROOT / "src"), int(NUMBER.read_text())))
