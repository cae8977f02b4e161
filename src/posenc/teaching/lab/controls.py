"""What a stage can be asked with: each control reads its text and knows where a slider stops.

No control reaches a file or a name in the interpreter: words are chosen from a list or matched against an alphabet,
and everything else is refused by name. How large a number may be is said by the view that it goes to.
"""

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from posenc.errors import InvalidArgument, PosencError, UnknownName
from posenc.names import ALIASES
from posenc.pictures.palette import style
from posenc.workbench.run.settings import TASKS

MAX_QUERY = 12_000
"""Characters of a query string: a pasted config is the longest that a page sends."""


@dataclass(frozen=True, kw_only=True)
class Control(ABC):
    """A name in the address, the words beside it, and the text that it has when the address leaves it out.

    Args:
        argument: the view's argument that it sets, where that has another name.
        rest: whether it stands under *More settings*.
    """

    kind: ClassVar[str]
    name: str
    default: str
    label: str = ""
    argument: str = ""
    rest: bool = False

    @abstractmethod
    def read(self, text: str) -> Any:
        """The value that ``text`` stands for; a PosencError where it stands for none."""

    @property
    def settable(self) -> tuple[str, ...]:
        """Every text that a pointer can set; empty where only a keyboard can."""
        return ()

    @property
    def words(self) -> str:
        return self.label or self.name


@dataclass(frozen=True, kw_only=True)
class Number(Control):
    """A number, which a slider takes from ``low`` to ``high``; the view refuses what it cannot answer.

    Args:
        stops: values that the slider visits, for ranges over many decades; any other may still be typed.
        below: the control whose value this one must stay under; it is moved there.
        play: whether a button runs through the stops.
    """

    kind = "number"
    low: float
    high: float
    step: int = 1
    integer: bool = True
    stops: tuple[float, ...] = ()
    below: str = ""
    play: bool = False

    def read(self, text: str) -> float:
        if not re.fullmatch(r"-?\d+(\.\d+)?([eE]\+?\d{1,3})?", text):
            raise InvalidArgument(f"{self.name}={text[:40]!r} is not a number; give one {self.bounds}")
        value = float(text)
        if self.integer and not value.is_integer():
            raise InvalidArgument(f"{self.name}={text[:40]!r} is not a whole number; give one {self.bounds}")
        return int(value) if self.integer else value

    @property
    def bounds(self) -> str:
        return f"from {self.low:.12g} to {self.high:.12g}"

    @property
    def settable(self) -> tuple[str, ...]:
        stops = self.stops or range(int(self.low), int(self.high) + 1, self.step)
        return tuple(f"{stop:.12g}" for stop in stops)


@dataclass(frozen=True, kw_only=True)
class Choice(Control):
    """One of a few names, each with its words; ``encodings`` are names that the palette has words for."""

    kind = "choice"
    options: Mapping[str, str] | Sequence[str] = ()
    encodings: Sequence[str] = ()
    integer: bool = False
    """Whether the names are integers, such as 4, 8 and 12 heads."""

    @property
    def shown(self) -> dict[str, str]:
        named = {name: "none" if name == "nope" else style(name).label for name in self.encodings}
        return named | (dict(self.options) if isinstance(self.options, Mapping) else {o: o for o in self.options})

    def read(self, text: str) -> str | int:
        text = ALIASES.get(text, text)
        if text not in self.shown:
            raise UnknownName(self.name, text[:40], self.shown)
        return int(text) if self.integer else text

    @property
    def settable(self) -> tuple[str, ...]:
        return tuple(self.shown)


@dataclass(frozen=True, kw_only=True)
class TaskChoice(Choice):
    """One of the tasks of a study."""

    options: Mapping[str, str] | Sequence[str] = tuple(TASKS)


@dataclass(frozen=True, kw_only=True)
class Switch(Control):
    """On or off: ``1`` or ``0`` in the address."""

    kind = "switch"
    default: str = "0"

    def read(self, text: str) -> bool:
        if text not in ("0", "1"):
            raise InvalidArgument(f"{self.name}={text[:40]!r} is not a switch; give 1 for on or 0 for off")
        return text == "1"

    @property
    def settable(self) -> tuple[str, ...]:
        return ("0", "1")


@dataclass(frozen=True, kw_only=True)
class Sentence(Control):
    """Two to eight words of letters, digits, apostrophes and hyphens."""

    kind = "text"

    def read(self, text: str) -> str:
        words = text.split()
        if not 2 <= len(words) <= 8 or any(not re.fullmatch(r"[\w'’-]{1,12}", word) for word in words):
            raise InvalidArgument(
                f"{self.name}={text[:60]!r} is no sentence for the lab; "
                f"give 2 to 8 words of at most 12 letters, separated by spaces"
            )
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class Arrangement(Control):
    """Places written ``2-1-0``: place t holds what was at its t-th number; ``of`` names the sentence."""

    kind = "arrangement"
    of: str

    def read(self, text: str) -> tuple[int, ...]:
        if not re.fullmatch(r"\d(-\d){1,8}", text):
            raise InvalidArgument(f"{self.name}={text[:40]!r} is no arrangement; write one like 2-1-0")
        return tuple(int(part) for part in text.split("-"))

    @property
    def settable(self) -> tuple[str, ...]:
        return tuple("-".join(order) for order in itertools.permutations(sorted(self.default.split("-"))))


@dataclass(frozen=True, kw_only=True)
class Pasted(Control):
    """A text to paste, such as a config.json, of at most ``most`` characters."""

    kind = "pasted"
    most: int = 8_000

    def read(self, text: str) -> str:
        if len(text) > self.most:
            raise InvalidArgument(f"{self.name} has {len(text)} characters; the lab reads at most {self.most}")
        return text


KINDS: dict[str, type[Control]] = {
    "number": Number,
    "choice": Choice,
    "task": TaskChoice,
    "switch": Switch,
    "sentence": Sentence,
    "arrangement": Arrangement,
    "pasted": Pasted,
}


def pairs(query: str) -> dict[str, str]:
    """The names and texts of a query string; a name given twice is refused."""
    if len(query) > MAX_QUERY:
        raise InvalidArgument(f"the query has {len(query)} characters; the lab reads at most {MAX_QUERY}")
    texts: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in texts:
            raise InvalidArgument(f"{name[:40]} is given twice; give it once")
        texts[name] = value
    return texts


def read(controls: Sequence[Control], texts: Mapping[str, str]) -> dict[str, Any]:
    """The view's arguments: each control as given, or its default. Every fault is said, not the first alone."""
    known = {control.name: control for control in controls}
    faults: list[PosencError] = [UnknownName("parameter", n[:40], known) for n in texts if n not in known]
    values: dict[str, Any] = {}
    for name, control in known.items():
        try:
            values[name] = control.read(texts.get(name, control.default))
        except PosencError as fault:
            faults.append(fault)
    if faults:
        raise faults[0] if len(faults) == 1 else InvalidArgument("; ".join(map(str, faults)))
    for name, control in known.items():
        if isinstance(control, Number) and control.below:
            values[name] = min(values[name], values[control.below] - 1)
    return {control.argument or name: values[name] for name, control in known.items()}
