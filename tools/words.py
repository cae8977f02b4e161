"""The word lint, which `make lint` runs: names, help texts and pages must use the field's terminology.

It checks the qualified public names of ``src`` (classes, methods, fields, parameters), README, the docs, the help
texts of the command line, and variables with meaningless names.
"""

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]

RENAMED = {
    "*.Sight": "Mask",
    "*.sight": "mask",
    "posenc.mask.Mask*.documents": "document_lengths",
    "posenc.mask.Mask*.padding": "left_padding",
    "*.door": "acts_on",
    "*.doors": "acts_on",
    "*.carry": "state",
    "*.carrying": "with_state",
    "*.reads_content": "needs_content",
    "*.meets": "uses_queries",
    "posenc.encodings.placed.Placed*.read": "with_content",
    "posenc.schedules*": "posenc.scaling",
    "posenc.encodings.*.schedule": "scaling",
    "posenc.integrations.*.schedule": "scaling",
    "*.Schedule": "Scaling",
    "*.LengthSchedule": "LengthScaling",
    "*.Spectrum": "Frequencies",
    "*.impl": "backend",
    "*.impl_reason": "explain",
    "posenc.encodings.*.turn": "rotate",
    "posenc.encodings.*.turning": "rotary",
    "*.turn_keys": "rotate_keys",
    "*.turn_back": "unrotate",
    "posenc.encodings.layers.Layers.kinds": "encodings",
    "posenc.encodings.layers.Layers.pattern": "layer_types",
    "posenc.encodings.*.fitted": "resized",
    "posenc.encodings.*Bias.line": "toeplitz",
    "posenc.encodings.*Bias.channels": "low_rank",
    "posenc.encodings.*Bias.learned": "trainable",
    "*.unmovable": "not_rerotatable",
    "*.rescaled": "with_scaling",
    "posenc.encodings.*.needs": "a table of the laws",
    "posenc.positions.*.plain": "arange",
}
"""The patterns of qualified public names that were renamed, and the new names."""

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
LIMIT = 30
"""The largest number of variables in ``src`` with meaningless names."""


def public_names(module: str, source: str) -> Iterator[str]:
    """Yield the dotted names of the module's public classes, functions, methods, fields and parameters."""
    yield module
    yield from _members(module, ast.parse(source).body)


def _members(path: str, body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield f"{path}.{node.target.id}"
        elif isinstance(node, ast.Assign):
            yield from (f"{path}.{target.id}" for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == "__init__":
            yield from _parameters(path, node)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            yield f"{path}.{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from _members(f"{path}.{node.name}", node.body)
            else:
                yield from _parameters(f"{path}.{node.name}", node)


def _parameters(path: str, node: ast.FunctionDef) -> Iterator[str]:
    arguments = node.args
    yield from (f"{path}.{a.arg}" for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def renamed(module: str, source: str) -> list[str]:
    """Return a complaint for each public name of the module that was renamed."""
    return [
        f"{name} is called {word}"
        for name in public_names(module, source)
        for pattern, word in RENAMED.items()
        if fnmatchcase(name, pattern)
    ]


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
    return [f"{len(places)} variables have empty names, {LIMIT} may:", *places] if len(places) > LIMIT else []


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
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        source = path.read_text("utf-8")
        yield from renamed(module, source)
        places += [f"  {path.relative_to(ROOT)}:{line} {name}" for line, name in empty_names(source)]
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
