"""What a room is: a question, a few sentences, a formula, and stages that are touched."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Try:
    """Something to try: what to look for, and the state of the room that shows it."""

    words: str
    state: dict[str, str]


@dataclass(frozen=True)
class Stage:
    """One picture and its controls; ``question`` names what is asked of the library.

    ``picks`` are parameters that a click on a column (or row) of the picture sets, one after the other.
    """

    question: str
    heading: str
    words: str = ""
    tries: tuple[Try, ...] = ()
    picks: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    """Answers to choose from before the picture is shown."""


@dataclass(frozen=True)
class Room:
    """``name`` is its address and ``short`` its entry in the list of rooms."""

    name: str
    short: str
    title: str
    words: str
    formula: str
    stages: tuple[Stage, ...] = ()
