"""The rooms of the lab in order, read from one TOML file per room."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from posenc.errors import UnknownName
from posenc.names import ALIASES
from posenc.teaching.lab.controls import Control

if TYPE_CHECKING:
    from posenc.pictures.view import View

ORDER = ("order", "count", "clock", "table", "rotation", "bias", "longer", "pictures", "models", "results")


@dataclass(frozen=True)
class Guess:
    """A question that the reader answers before the picture shows the answer.

    Args:
        asks: the question about the picture in its state ``before``.
        answers: the possible answers, each with the reason why it is right or wrong.
        right: the index of the correct answer.
        before: the state of the picture before the answer.
        after: the state to which the picture moves, which shows the answer.
    """

    asks: str
    answers: Sequence[Sequence[str]]
    right: int
    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True)
class Stage:
    """One of the lab's pictures, with the controls that change it.

    Args:
        question: the name of the stage in addresses, unique in the lab; ``find`` finds the stage by this name.
        short: the entry of the stage in the list of the room's stages.
        more: whether the stage is optional, under *More*; such stages are last in their room.
        view: the function that computes the picture, as ``module:function`` in ``posenc.teaching``.
        words: the text of the stage, at most two lines.
        guess: a question that is shown before the controls.
        number: the readout that matters most, shown first and largest.
        picks: the controls that are set in turn by touching a column or row of the picture.
        fresh: whether the answer for the same values may change, as with a growing ledger.
        tries: suggestions of what to look for, each with the state of the stage that shows it.
    """

    question: str
    short: str
    view: str
    heading: str
    words: str = ""
    more: bool = False
    guess: Guess | None = None
    number: str = ""
    picks: Sequence[str] = ()
    fresh: bool = False
    tries: Sequence[tuple[str, Mapping[str, str]]] = ()
    controls: Sequence[Control] = ()

    def answer(self, texts: Mapping[str, str]) -> "View":
        """Return the view for these values of the controls, given as strings.

        An unknown control or value raises a PosencError.
        """
        from posenc.arguments import one_of
        from posenc.teaching.views.bounds import arguments

        known = {control.name: control for control in self.controls}
        asked = {name: control.default for name, control in known.items()}
        for name, text in texts.items():
            choices = known[one_of("parameter", name[:40], known)].shown
            asked[name] = ALIASES.get(text, text) if choices else text
            if choices and asked[name] not in choices:
                raise UnknownName(name, text[:40], choices)
        settings = {known[name].argument: text for name, text in asked.items()}
        values = arguments(self.question, self.function, settings)
        for control in (control for control in self.controls if control.below):
            values[control.argument] = min(values[control.argument], values[known[control.below].argument] - 1)
        return self.function(**values)

    @property
    def function(self) -> Callable[..., "View"]:
        """The function that computes the view, imported on first use."""
        return resolve_name(f"posenc.teaching.{self.view}")


@dataclass(frozen=True)
class Room:
    """A room of the lab. ``name`` is its address; ``formula`` has pairs of alternative text and TeX."""

    name: str
    short: str
    title: str
    words: str
    formula: tuple[tuple[str, str], ...]
    stages: Sequence[Stage]


def _stage(entry: dict[str, Any]) -> Stage:
    controls = [
        Control(**{"label": control["name"], "argument": control["name"]} | control)
        for control in entry.get("controls", ())
    ]
    return Stage(**entry | {"controls": controls, "guess": Guess(**entry["guess"]) if "guess" in entry else None})


def _room(text: str) -> Room:
    entry = tomllib.loads(text)
    return Room(
        **entry | {"formula": tuple(map(tuple, entry["formula"])), "stages": [*map(_stage, entry["stages"])]}
    )


ROOMS = tuple(_room((files("posenc.teaching.lab") / "rooms" / f"{name}.toml").read_text("utf-8")) for name in ORDER)
BY_NAME = {room.name: room for room in ROOMS}
"""All rooms by their addresses."""
BY_QUESTION = {stage.question: (room, stage) for room in ROOMS for stage in room.stages}
"""The room and the stage at every address."""


def find(name: str) -> Stage:
    """Return the stage at this address."""
    if name not in BY_QUESTION:
        raise UnknownName("question", name[:40], BY_QUESTION)
    return BY_QUESTION[name][1]


def place(stage: Stage) -> str:
    """Return the path of a stage, ``room/stage``."""
    return f"{BY_QUESTION[stage.question][0].name}/{stage.question}"
