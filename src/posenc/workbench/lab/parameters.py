"""What a question can be asked with: each parameter reads its text, checks its bounds, and knows its default.

No parameter reaches a file, a name in the interpreter or an unbounded size: numbers have bounds, words are
chosen from a list or matched against an alphabet, and everything else is refused by name.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl

from posenc.errors import InvalidArgument, UnknownName
from posenc.names import canonical

MAX_QUERY = 2_000
"""Characters of a query string; the longest that the page makes is a tenth of it."""


@dataclass(frozen=True)
class Parameter(ABC):
    """A name in the URL, the words beside its control, and the value it has when the URL leaves it out."""

    name: str
    label: str
    default: Any
    argument: str = field(default="", kw_only=True)
    """The view's argument that it sets, where that has another name."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """The value that ``text`` stands for; InvalidArgument where it stands for none."""

    def write(self, value: Any) -> str:
        """The text that ``read`` turns into ``value``."""
        return str(value)


@dataclass(frozen=True)
class Number(Parameter):
    """A number from ``low`` to ``high``; whole where ``step`` is an int.

    ``stops`` are the values that the slider visits, for ranges over many decades; any number between the
    bounds may still be typed. ``widget`` is how the page offers it: a slider, or two buttons.
    """

    low: float
    high: float
    step: float = 1
    stops: tuple[float, ...] = ()
    widget: Literal["slider", "buttons"] = "slider"

    @property
    def whole(self) -> bool:
        return isinstance(self.step, int)

    def read(self, text: str) -> float:
        pattern = r"-?\d{1,12}" if self.whole else r"-?\d{1,12}(\.\d{1,12})?"
        if not re.fullmatch(pattern, text):
            kind = "a whole number" if self.whole else "a number"
            raise InvalidArgument(f"{self.name}={text[:40]!r} is not {kind}; give one {self.bounds}")
        value = int(text) if self.whole else float(text)
        if not self.low <= value <= self.high:
            raise InvalidArgument(f"{self.name}={text} is out of bounds; give a value {self.bounds}")
        return value

    @property
    def bounds(self) -> str:
        return f"from {self.low:.12g} to {self.high:.12g}"

    def write(self, value: float) -> str:
        return f"{value:.12g}"


@dataclass(frozen=True)
class Numbers(Parameter):
    """One to ``most`` whole numbers from ``low`` to ``high``, written ``0,100,511``."""

    low: int
    high: int
    most: int = 8

    def read(self, text: str) -> tuple[int, ...]:
        parts = text.replace(" ", "").split(",")
        if not 1 <= len(parts) <= self.most or any(not re.fullmatch(r"\d{1,9}", part) for part in parts):
            raise InvalidArgument(
                f"{self.name}={text[:40]!r} is no list; give 1 to {self.most} whole numbers such as 0,100,511"
            )
        values = tuple(int(part) for part in parts)
        if min(values) < self.low or max(values) > self.high:
            raise InvalidArgument(
                f"{self.name}={text} is out of bounds; give values from {self.low} to {self.high}"
            )
        return values

    def write(self, value: tuple[int, ...]) -> str:
        return ",".join(map(str, value))


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a few names; ``options`` maps each to the words on the page."""

    options: Mapping[str, str]
    whole: bool = False
    """Whether the names are whole numbers, such as 4, 8 and 12 heads."""

    def read(self, text: str) -> str | int:
        text = canonical(text)
        if text not in self.options:
            raise UnknownName(self.name, text[:40], self.options)
        return int(text) if self.whole else text


@dataclass(frozen=True)
class Switch(Parameter):
    """On or off: ``1`` or ``0`` in the URL."""

    def read(self, text: str) -> bool:
        if text not in ("0", "1"):
            raise InvalidArgument(f"{self.name}={text[:40]!r} is not a switch; give 1 for on or 0 for off")
        return text == "1"

    def write(self, value: bool) -> str:
        return "1" if value else "0"


@dataclass(frozen=True)
class Sentence(Parameter):
    """Two to ``most`` words of letters, digits, apostrophes and hyphens."""

    most: int = 8

    def read(self, text: str) -> str:
        words = text.split()
        if not 2 <= len(words) <= self.most or any(not re.fullmatch(r"[\w'’-]{1,12}", word) for word in words):
            raise InvalidArgument(
                f"{self.name}={text[:60]!r} is no sentence for the lab; "
                f"give 2 to {self.most} words of at most 12 letters, separated by spaces"
            )
        return " ".join(words)


@dataclass(frozen=True)
class Arrangement(Parameter):
    """A permutation, written ``2-1-0``: place t holds what was at its t-th number."""

    of: str = ""
    """The name of the sentence whose words it arranges."""

    def read(self, text: str) -> tuple[int, ...]:
        if not re.fullmatch(r"\d(-\d){1,8}", text):
            raise InvalidArgument(f"{self.name}={text[:40]!r} is no arrangement; write one like 2-1-0")
        order = tuple(int(part) for part in text.split("-"))
        if sorted(order) != list(range(len(order))):
            raise InvalidArgument(f"{self.name}={text} must hold each of 0 … {len(order) - 1} once")
        return order

    def write(self, value: tuple[int, ...]) -> str:
        return "-".join(map(str, value))


def pairs(query: str) -> dict[str, str]:
    """The names and texts of a query string; a name given twice is refused."""
    if len(query) > MAX_QUERY:
        raise InvalidArgument(f"the query has {len(query)} characters; the lab reads at most {MAX_QUERY}")
    found: dict[str, str] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise InvalidArgument(f"{name[:40]} is given twice; give it once")
        found[name] = text
    return found


def read(parameters: Sequence[Parameter], texts: Mapping[str, str]) -> dict[str, Any]:
    """The view's arguments: each parameter as given, or its default. Unknown names are refused."""
    known = {p.name: p for p in parameters}
    for name in texts:
        if name not in known:
            raise UnknownName("parameter", name[:40], known)
    values = ((p, p.read(texts[p.name]) if p.name in texts else p.default) for p in parameters)
    return {p.argument or p.name: value for p, value in values}
