"""The grammar of the strings that describe encodings. Such strings are used in Python, on the command line, and in
the TOML files of ``posenc study``. Strings are parsed, never evaluated.

rotary(base=500000, rotary_dim=32)      the name of an encoding, with settings
rotary(scaling=yarn(4, 4096))          values can be numbers, names, tuples, scalings, axis maps
stack(rotary, fox)                      several encodings in every layer
layers(rotary*3 + nope)                 one encoding per layer; the pattern repeats
layers(local(rotary, window=1024)*5 + rotary(base=1000000))      Gemma 3: layers limited to a window (or a chunk)
self-extend(rotary, group=8, window=1024)       rotary at remapped positions: see posenc.remap
my_module:Mine(width=3)                 a custom class; imported only when it is built
"""

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass, fields
from keyword import iskeyword
from typing import Any

from posenc.errors import InvalidArgument
from posenc.names import REMAPS
from posenc.scaling import LengthScaling, Scaling, to_dict

FLAGS = {"true": True, "false": False}
"""The names of True and False, as in TOML. A value that is the string "true" or "false" must be quoted."""

LAYER_SETTINGS = ("window", "chunk")
"""The settings of ``local``, under the names that ``Layers`` uses."""

LONG_NAME = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w.)])(?P<name>[A-Za-z_][\w.]*:[A-Za-z_]\w*|[A-Za-z_]\w*(?:-[A-Za-z_]\w*)+)"""
)
"""A pattern for names that are not Python identifiers, such as my_module:Mine and query-scale. The pattern also
matches quoted strings, which are skipped.
"""

WORDS = str.maketrans("-:.", "ーːˑ")
"""The letters that replace punctuation in names such as my_module:Mine while Python parses a string. No name
contains these letters.
"""
MARKS = str.maketrans("ーːˑ", "-:.")

LOCAL = "window= or chunk= (whole numbers of at least 1), such as local(rotary, window=1024)"
TAKES = {
    "layers": "one pattern, such as layers(rotary*3 + nope)",
    "stack": "encodings, such as stack(rotary, alibi)",
    "local": f"an encoding and {LOCAL}",
    **dict.fromkeys(REMAPS, "an encoding and settings by name"),
}
"""The expected arguments of each name whose arguments are encodings."""


@dataclass(frozen=True)
class Recipe:
    """A parsed encoding: a name, settings and, for composed encodings, parts with counts.

    Args:
        name: the name of an encoding, ``module:Class``, ``stack``, ``layers``, or (only for a part of ``layers``)
            ``local``.
        settings: the name and value of every given setting, sorted by name; positional settings come first and are
            named "0", "1" ….
        parts: for composed encodings, each part with the number of consecutive layers that use it.
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    parts: tuple[tuple["Recipe", int], ...] = ()

    @property
    def foreign(self) -> tuple[str, ...]:
        """The ``module:Class`` names in this recipe; building the recipe imports their modules."""
        here = (self.name,) if ":" in self.name else ()
        return here + tuple(name for part, _ in self.parts for name in part.foreign)

    def get(self, setting: str, default: Any = None) -> Any:
        """Return the value of a setting, or ``default`` if the setting is not given."""
        return dict(self.settings).get(setting, default)

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The values of positional settings in order, and the other settings by name."""
        by_name = {key: value for key, value in self.settings if not key.isdigit()}
        return [value for key, value in self.settings if key.isdigit()], by_name

    def with_(self, **settings: Any) -> "Recipe":
        """Return the recipe with these settings changed; None removes a setting."""
        settings_now = {**dict(self.settings), **settings}
        given = tuple(sorted((key, value) for key, value in settings_now.items() if value is not None))
        return Recipe(self.name, given, self.parts)

    def __str__(self) -> str:
        """Return a string for which ``parse`` returns this recipe."""
        if self.parts:
            sign = " + " if self.name == "layers" else ", "
            inside = sign.join(f"{part}*{n}" if n > 1 else str(part) for part, n in self.parts)
            return f"{self.name}({', '.join([inside, *(f'{key}={value}' for key, value in self.settings)])})"
        given = [value_text(v) if key.isdigit() else f"{key}={value_text(v)}" for key, v in self.settings]
        return f"{self.name}({', '.join(given)})" if given else self.name


def value_text(value: Any) -> str:
    """Return a setting's value as it is written in the string of an encoding."""
    if isinstance(value, Recipe):
        return str(value) if value.settings or value.parts else f"{value}()"
    if isinstance(value, Scaling | LengthScaling):
        given = to_dict(value)
        name = given.pop("scaling")
        usual = {f.name: f.default for f in fields(value)}  # type: ignore[arg-type]  # every one is a dataclass
        differing = (f"{k}={value_text(v)}" for k, v in given.items() if getattr(value, k) != usual[k])
        return f"{name}({', '.join(differing)})"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, (tuple, list)):
        inner = ", ".join(value_text(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, str):
        word = value.isascii() and value.isidentifier() and not iskeyword(value)  # Python normalises other letters
        return value if word and value not in FLAGS else repr(value)
    return repr(value)


def parse(text: str) -> Recipe:
    """Parse a string into a recipe. Parsing does not look up, import or evaluate anything.

    Raises:
        InvalidArgument: the string does not follow the grammar; the message shows where.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument(f'encoding={text!r} must be a string, such as "rotary" or "rotary(base=500000)"')
    try:
        words = LONG_NAME.sub(lambda match: match[0].translate(WORDS) if match["name"] else match[0], text.strip())
        return _recipe(ast.parse(words, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{text!r} cannot be parsed ({error.args[0] if error.args else 'too deeply nested'}); write an "
            "encoding such as rotary(base=500000) or layers(rotary*3 + nope), or a scaling such as yarn(4)"
        ) from error


def split(texts: str) -> list[str]:
    """Split a string at commas outside brackets: ``"t5,stack(rotary, fox)"`` becomes two strings."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(texts):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(texts[start:i])
            start = i + 1
    parts.append(texts[start:])
    return [text.strip() for text in parts if text.strip()]


def _recipe(node: ast.expr) -> Recipe:
    name = _name(node.func if isinstance(node, ast.Call) else node)
    if not isinstance(node, ast.Call):
        return Recipe(name)
    if any(keyword.arg is None for keyword in node.keywords):
        raise InvalidArgument(f"{_shown(node)}: ** is not allowed here; write every setting as name=value")
    if twice := [name for name, count in Counter(keyword.arg for keyword in node.keywords).items() if count > 1]:
        raise InvalidArgument(f"{_shown(node)} sets {twice[0]} twice; set it once")
    settings = tuple(sorted({str(keyword.arg): _value(keyword.value) for keyword in node.keywords}.items()))
    if name in TAKES:
        return _composed(name, node, settings)
    # Positional settings come first, in numeric order; sorting them as strings would put "10" before "2".
    return Recipe(name, (*((str(i), _value(argument)) for i, argument in enumerate(node.args)), *settings))


def _composed(name: str, node: ast.Call, settings: tuple[tuple[str, Any], ...]) -> Recipe:
    """Parse a pattern of layers, a stack, or an encoding with a window, a chunk or remapped positions."""
    count, has_settings = len(node.args), name not in ("layers", "stack")
    if count < 1 or (count > 1 and name != "stack") or bool(settings) != has_settings:
        raise InvalidArgument(f"{_shown(node)}: the arguments of {name} must be {TAKES[name]}")
    parts = [part for argument in node.args for part in _terms(argument)]
    if name != "layers" and (len(parts) > count or any(layers > 1 for _, layers in parts)):
        raise InvalidArgument(
            f"{_shown(node)}: + and * are not allowed in {name}, only in layers; separate the encodings of a stack "
            "by commas"
        )
    for key, value in settings if name == "local" else ():
        if key not in LAYER_SETTINGS or type(value) is not int or value < 1:
            raise InvalidArgument(f"{_shown(node)}: {key}={value!r} is invalid; write {LOCAL}")
    return Recipe(name, settings, tuple(parts))


def _terms(node: ast.expr) -> list[tuple[Recipe, int]]:
    """Return the encodings in a pattern such as ``rotary*3 + nope``, each with its count."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return [(_recipe(node), 1)]
    count = node.right.value if isinstance(node.right, ast.Constant) else None
    if type(count) is not int or count < 1:
        raise InvalidArgument(f"{_shown(node)}: * must be followed by a whole number of at least 1")
    return [(_recipe(node.left), count)]


def _shown(node: ast.expr) -> str:
    """Return the part of the string that a node was parsed from."""
    return ast.unparse(node).translate(MARKS)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id.translate(MARKS)
    raise InvalidArgument(f"{_shown(node)!r} is not the name of an encoding; write a name, such as rotary or alibi")


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | None):
        return node.value
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    number = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    if isinstance(number, ast.Constant) and isinstance(number.value, int | float):
        if abs(number.value) > sys.float_info.max:
            raise InvalidArgument("a number with more than 308 digits is not allowed; write a smaller number")
        return -number.value if negative else number.value
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(element) for element in node.elts)
    if isinstance(node, ast.Call):
        return _recipe(node)
    if isinstance(node, ast.Name):
        return FLAGS[node.id] if node.id in FLAGS else _name(node)
    raise InvalidArgument(
        f"{_shown(node)!r} is not a valid value for a setting; write a number, a name, a tuple, or name(…)"
    )
