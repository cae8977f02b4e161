"""Cards: questions of the lessons, with choices and answers."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

TOPICS = {
    "order": "order",
    "clock": "the clock",
    "table": "the table",
    "rotation": "the rotation",
    "bias": "the bias",
    "length": "longer contexts",
}
KINDS = {"recall": "Recall", "derivation": "Derivation", "trade-off": "Trade-off"}
"""The kinds of questions, which ask the reader to recall, to compute, or to weigh."""


@dataclass(frozen=True)
class Option:
    """An option, and the feedback for choosing it."""

    words: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Card:
    """A question with choices, a number to type, or an answer to compare with the reader's.

    Args:
        name: its name in addresses.
        kind: one of ``KINDS``.
        topic: one of ``TOPICS``.
        stars: how hard it is, 1 to 3.
        lessons: the lessons that ask it, 0 to 4.
        companies: the companies whose models or papers it is about.
        rows: the rows of ``lessons.toml`` that it covers.
        stage: the stage of the lab that answers it, as ``room/question``.
        claims: the claims that answer it.
        prompt: the question.
        answer: the answer in words; ``{}`` is replaced by the number.
        options: the options, exactly one of which is right. A card with neither options nor a number is open: the
            reader writes an answer and then sees the one given here.
        number: the name of a function in ``numbers`` that computes the right number.
        tolerance: how far a right answer may be from the number.
        interview: whether the question is asked in interviews.
    """

    name: str
    kind: str
    topic: str
    stars: int
    lessons: tuple[int, ...]
    companies: tuple[str, ...]
    rows: tuple[str, ...]
    stage: str
    claims: tuple[str, ...]
    prompt: str
    answer: str
    options: tuple[Option, ...] = ()
    number: str = ""
    tolerance: float = 0.0
    interview: bool = False

    @property
    def shown(self) -> tuple[Option, ...]:
        """The options in the order of the page, rotated by a hash of the card's name."""
        start = sum(self.name.encode()) % max(1, len(self.options))
        return self.options[start:] + self.options[:start]

    @property
    def form(self) -> str:
        """How the card is answered: ``"choice"``, ``"number"`` or ``"open"``."""
        return "choice" if self.options else "number" if self.number else "open"


def read(text: str) -> tuple[Card, ...]:
    """The cards of a TOML document, in its order."""
    deck = []
    for name, entry in tomllib.loads(text).items():
        options = tuple(Option(**option) for option in entry.pop("options", ()))
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        deck.append(Card(name, **{**entry, **lists}, options=options))
    return tuple(deck)


DECK = read((files("posenc.teaching.lessons") / "cards.toml").read_text(encoding="utf-8"))
"""Every card."""
COMPANIES = tuple(sorted({company for card in DECK for company in card.companies}))
"""The companies whose models or papers some card is about."""
