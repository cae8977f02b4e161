"""Controls of a stage of the lab: their labels, and the values that can be set with a mouse or a finger, as
strings.

The signature of the view function defines the meaning and the range of each value.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

from posenc.errors import InvalidArgument
from posenc.pictures.palette import style

MAX_QUERY = 12_000
"""The largest number of characters in a query string, which may contain a pasted config."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """A control of a stage: its name in the URL, its label, and its default value as a string.

    Args:
        label, argument: the text beside the control, and the argument of the view that the control sets. In the
            TOML files of the lab's rooms, both default to ``name``.
        rest: whether the control is under *More settings*.
        stops: for a number, the stops of the slider, or a range such as ``"0..16"``; other values can be typed.
        below: for a number, the name of a control; the number is kept below that control's value.
        play: for a number, whether a button runs through the stops.
        options: for a choice, the names of the options and their labels.
        of: for an arrangement such as ``2-1-0`` (an order of words), the name of the control with the words.
        most: the largest number of characters that can be pasted.
    """

    kind: Literal["number", "choice", "switch", "text", "pasted", "arrangement"]
    name: str
    default: str = "0"
    label: str = ""
    argument: str = ""
    rest: bool = False
    stops: Sequence[float] | str = ()
    below: str = ""
    play: bool = False
    options: Mapping[str, str] | Sequence[str] = ()
    encodings: Sequence[str] = ()
    of: str = ""
    most: int = 8_000

    @property
    def shown(self) -> dict[str, str]:
        """The values that a choice offers, with their labels."""
        named = {name: "none" if name == "nope" else style(name).label for name in self.encodings}
        return named | (dict(self.options) if isinstance(self.options, Mapping) else {o: o for o in self.options})

    @property
    def settable(self) -> tuple[str, ...]:
        """All values that a pointer can set, as strings; empty if the value can only be typed."""
        if self.kind == "arrangement":
            return tuple("-".join(order) for order in itertools.permutations(sorted(self.default.split("-"))))
        if isinstance(self.stops, str):
            first, last = map(int, self.stops.split(".."))
            return tuple(map(str, range(first, last + 1)))
        return (
            tuple(f"{stop:.12g}" for stop in self.stops)
            or tuple(self.shown)
            or ("0", "1") * (self.kind == "switch")
        )


def pairs(query: str) -> dict[str, str]:
    """Return the names and values in a query string; refuse a name that is given twice."""
    if len(query) > MAX_QUERY:
        raise InvalidArgument(f"the query has {len(query)} characters; the lab accepts at most {MAX_QUERY}")
    texts: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in texts:
            raise InvalidArgument(f"{name[:40]} is given twice; pass it once")
        texts[name] = value
    return texts
