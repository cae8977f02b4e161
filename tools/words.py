"""The word lint, which `make lint` runs: pages, help texts and prose must use the field's terminology.

It checks README, the docs, the help texts of the command line, the prose in ``src``, and variables with meaningless
names.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

PRIVATE = re.compile(
    r"\b(?:sights?|doors?|carry|carries|carried|carrying|told|impl|spectrum|somebody's own|rope schedules?|"
    r"once a forward|at hand|(?:comput|read|ma[dk]e|load|round|count|t[ao]ke|work)\w* otherwise|"
    r"(?:numbers?|rows?|ids?|logits?|vectors?|one) a (?:token|head|layer|query|row|axis|bucket)|"
    r"anew|besides|nobody|(?:none|false|zero) where)\b",
    re.IGNORECASE,
)
"""Private words, which no reader would search for; *a* for per, *otherwise* for differently, *where* for if."""

PROSE = re.compile(
    r"\b(?:(?:once|per|of|in|each|every|with|at|is) (?:a )?forward\b(?! pass)|nobody may|by and large|at hand|"
    r"(?:comput|read|load|count|rotat|measur|round)\w*(?: (?:its|the|one) \w+)? otherwise|"
    r"(?:nats|numbers?|rows?|channels?|products?|panels?) a (?:byte|token|head|layer|query|row|axis|pair|step)|"
    r"laid end to end|broken off|goes on|leave (?:it|one) out|is no \w+(?=;)|whatever (?:the|its))\b",
    re.IGNORECASE,
)
"""Unidiomatic phrases, which are also refused in docstrings, comments, errors, templates and data."""

ALLOWED = ("told apart", "carry relative position", "carry absolute positions")
"""The phrases in which private words are plain English."""

EMPTY = {"found", "made", "said", "told", "own", "kept", "held", "beside", "came", "whole", "seen"}
LIMIT = 24
"""The largest number of variables in ``src`` with meaningless names."""


def private_words(place: str, text: str, pattern: re.Pattern[str] = PRIVATE) -> list[str]:
    """Return a complaint for each private word of a page, including its code, or of a help text."""
    for phrase in ALLOWED:
        text = re.sub(phrase.replace(" ", r"\s+"), lambda match: "\n" * match[0].count("\n"), text)
    return [
        f"{place}:{number} says {word[0]!r}"
        for number, line in enumerate(text.splitlines(), start=1)
        for word in pattern.finditer(line)
    ]


def empty_names(source: str) -> list[tuple[int, str]]:
    """Return line and name of each variable whose name is in ``EMPTY``."""
    return [
        (node.lineno, node.id)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY
    ]


def too_many(places: list[str]) -> list[str]:
    """Return the variables with empty names if there are more than ``LIMIT``."""
    return (
        [f"{len(places)} variables have empty names, but at most {LIMIT} may:", *places]
        if len(places) > LIMIT
        else []
    )


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield every help text of the command line, with its command and option."""
    import typer.main

    from posenc.commands.app import app

    root = typer.main.get_command(app)
    for name, command in [("posenc", root), *getattr(root, "commands", {}).items()]:
        yield f"help of {name}", command.help or ""
        for option in command.params:
            yield f"help of {name} {option.name}", f"{option.name} {getattr(option, 'help', None) or ''}"


def complaints() -> Iterator[str]:
    """Yield all complaints about this checkout."""
    places = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        found = empty_names(path.read_text("utf-8"))
        places += [f"  {path.relative_to(ROOT)}:{line} {name}" for line, name in found]
    yield from too_many(places)
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield from private_words(str(path.relative_to(ROOT)), path.read_text("utf-8"))
    for path in sorted(path for end in ("py", "toml", "html") for path in (ROOT / "src").rglob(f"*.{end}")):
        yield from private_words(str(path.relative_to(ROOT)), path.read_text("utf-8"), PROSE)
    for place, text in help_texts():
        yield from private_words(place, text)


def main() -> int:
    """Print all complaints; return 1 if there are any."""
    lines = list(complaints())
    print(*lines, sep="\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
