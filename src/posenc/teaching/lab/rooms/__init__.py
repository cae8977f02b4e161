"""The rooms of the lab, one TOML file each, in the order in which they are walked."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from posenc.errors import UnknownName
from posenc.names import ALIASES
from posenc.teaching.lab.controls import Control

if TYPE_CHECKING:
    from posenc.pictures.view import View

ORDER = ("order", "count", "clock", "table", "rotation", "bias", "longer", "pictures", "models", "results")


@dataclass(frozen=True)
class Try:
    """Something to try: what to look for, and the state of the stage that shows it."""

    words: str
    state: Mapping[str, str]


@dataclass(frozen=True)
class Guess:
    """A question that comes before the answer.

    Args:
        asks: the question, about the picture in the state ``before``.
        answers: what a reader may say, and why that is right or not.
        right: which of them is.
        before: the state in which the picture does not tell yet.
        after: the state that shows the answer, to which the picture moves.
    """

    asks: str
    answers: tuple[tuple[str, str], ...]
    right: int
    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True)
class Stage:
    """One picture and its controls.

    Args:
        question: its address, and what is asked of the library.
        short: its entry in the list of the room's stages.
        more: whether it lies beside the path, under *More*; such stages stand last in their room.
        view: the function that answers, ``module:function`` below ``posenc.teaching``.
        words: at most two lines.
        guess: what is asked before the controls are there.
        number: the readout that matters most, shown first and largest.
        picks: controls that a column (or row) of the picture sets when it is touched, one after the other.
        fresh: whether the same words may have a new answer, as a ledger that grows has.
    """

    question: str
    short: str
    view: str
    heading: str
    words: str = ""
    more: bool = False
    guess: Guess | None = None
    number: str = ""
    picks: tuple[str, ...] = ()
    fresh: bool = False
    tries: tuple[Try, ...] = ()
    controls: tuple[Control, ...] = ()

    def answer(self, texts: Mapping[str, str]) -> "View":
        """The view for these texts of a query; a PosencError where one is unknown or out of bounds."""
        from posenc.teaching.views.bounds import arguments

        known = {control.name: control for control in self.controls}
        asked = {name: control.default for name, control in known.items()}
        for name, text in texts.items():
            if name not in known:
                raise UnknownName("parameter", name[:40], known)
            choices = known[name].shown
            asked[name] = ALIASES.get(text, text) if choices else text
            if choices and asked[name] not in choices:
                raise UnknownName(name, text[:40], choices)
        sets = {name: control.argument or name for name, control in known.items()}
        values = arguments(self.question, self.function, {sets[name]: text for name, text in asked.items()})
        for name, control in known.items():
            if control.below:
                values[sets[name]] = min(values[sets[name]], values[sets[control.below]] - 1)
        answered: View = self.function(**values)
        return answered

    @property
    def function(self) -> Callable[..., "View"]:
        """The view, imported when it is first asked."""
        module, name = self.view.split(":")
        view: Callable[..., View] = getattr(import_module(f"posenc.teaching.{module}"), name)
        return view


@dataclass(frozen=True)
class Room:
    """``name`` is its address, ``short`` its entry in the list of rooms; a formula is its words and its TeX."""

    name: str
    short: str
    title: str
    words: str
    formula: tuple[tuple[str, str], ...]
    stages: tuple[Stage, ...]


def _stage(entry: dict[str, Any]) -> Stage:
    controls = tuple(Control(**given) for given in entry.pop("controls", ()))
    tries = tuple(Try(*given) for given in entry.pop("tries", ()))
    guess = entry.pop("guess", None)
    asked = guess and Guess(**guess | {"answers": tuple(map(tuple, guess["answers"]))})
    lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
    return Stage(**{**entry, **lists}, tries=tries, controls=controls, guess=asked)


def _room(text: str) -> Room:
    entry = tomllib.loads(text)
    formula = tuple((words, tex) for words, tex in entry.pop("formula"))
    return Room(**entry | {"formula": formula, "stages": tuple(map(_stage, entry["stages"]))})


ROOMS = tuple(_room((files("posenc.teaching.lab") / "rooms" / f"{name}.toml").read_text("utf-8")) for name in ORDER)
BY_NAME = {room.name: room for room in ROOMS}
"""Every room by its address."""


@lru_cache
def stages() -> dict[str, tuple[Room, Stage]]:
    """Every stage by its address, with its room."""
    return {stage.question: (room, stage) for room in ROOMS for stage in room.stages}


def find(name: str) -> Stage:
    """The stage at this address."""
    if name not in stages():
        raise UnknownName("question", name[:40], stages())
    return stages()[name][1]


def place(stage: Stage) -> str:
    """Where a stage is found, ``room/stage``."""
    return f"{stages()[stage.question][0].name}/{stage.question}"
