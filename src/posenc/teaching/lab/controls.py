"""The controls of a stage: their words, and the texts that a pointer can set.

The signature of the view defines the meaning and range of a text.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

from posenc.errors import InvalidArgument
from posenc.pictures.palette import style

MAX_QUERY = 12_000
"""The most characters of a query string; a pasted config is the longest."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """A control: its name in the address, its label, and its default text.

    Args:
        argument: the view's argument that it sets, if that has another name.
        rest: whether it is under *More settings*.
        stops: of a number, the stops of its slider, ``"0..16"`` for all between; other values can be typed.
        below: of a number, the control whose value it must stay below; it is moved if needed.
        play: of a number, whether a button runs through its stops.
        options: of a choice, its names and their labels; names in ``encodings`` have their labels in the palette.
        of: of an arrangement such as ``2-1-0``, the control with the words that it arranges.
        most: the most characters that can be pasted.
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
    def words(self) -> str:
        return self.label or self.name

    @property
    def shown(self) -> dict[str, str]:
        """The names of a choice with their words."""
        named = {name: "none" if name == "nope" else style(name).label for name in self.encodings}
        return named | (dict(self.options) if isinstance(self.options, Mapping) else {o: o for o in self.options})

    @property
    def settable(self) -> tuple[str, ...]:
        """Every text that a pointer can set; empty if only a keyboard can."""
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
    """The names and texts of a query string; a name given twice is refused."""
    if len(query) > MAX_QUERY:
        raise InvalidArgument(f"the query has {len(query)} characters; the lab reads at most {MAX_QUERY}")
    texts: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in texts:
            raise InvalidArgument(f"{name[:40]} is given twice; pass it once")
        texts[name] = value
    return texts
