"""Cards: questions from the lessons with their answers and, for multiple choice, their options."""

import tomllib
from collections.abc import Sequence
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
"""The kinds of questions: to recall a fact, to derive a result, or to weigh a choice."""


@dataclass(frozen=True)
class Option:
    """An option of a question, and the feedback for choosing this option."""

    words: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Card:
    """A question that is answered by choosing an option, by typing a number, or in free text (see ``form``).

    Args:
        name: the name of the card in addresses.
        kind: one of ``KINDS``.
        topic: one of ``TOPICS``.
        stars: the difficulty, from 1 to 3.
        lessons: the numbers of the lessons that ask the question, from 0 to 4.
        companies: the companies whose models or papers the question is about.
        rows: the rows of ``lessons.toml`` that the question covers.
        stage, state: the stage of the lab that answers the question, as ``room/question``, and the query of the
            state that a served lab opens; a saved lab may lack this state.
        claims: the claims that answer the question.
        prompt: the question.
        answer: the answer in words; ``{}`` is replaced by the number.
        options: the options, exactly one of which is right. A card with neither options nor a number is open: the
            reader writes an answer and then sees ``answer``.
        number: the name of a function in ``numbers`` that computes the right number.
        tolerance: the largest difference between a right answer and the number.
        interview: whether the question is asked in interviews.
    """

    name: str
    kind: str
    topic: str
    stars: int
    lessons: Sequence[int]
    companies: Sequence[str]
    rows: Sequence[str]
    stage: str
    claims: Sequence[str]
    prompt: str
    answer: str
    options: Sequence[Option] = ()
    number: str = ""
    tolerance: float = 0.0
    state: str = ""
    interview: bool = False

    @property
    def shown(self) -> Sequence[Option]:
        """The options in the order in which the page shows them: rotated by a hash of the card's name."""
        start = sum(self.name.encode()) % max(1, len(self.options))
        return [*self.options[start:], *self.options[:start]]

    @property
    def form(self) -> str:
        """The form of the answer: ``"choice"``, ``"number"`` or ``"open"``."""
        return "choice" if self.options else "number" if self.number else "open"


def read(text: str) -> tuple[Card, ...]:
    """Return the cards of a TOML document, in the order of the document."""
    return tuple(
        Card(name, **entry | {"options": [Option(**option) for option in entry.get("options", ())]})
        for name, entry in tomllib.loads(text).items()
    )


DECK = read((files("posenc.teaching.lessons") / "cards.toml").read_text(encoding="utf-8"))
"""All cards."""
COMPANIES = tuple(sorted({company for card in DECK for company in card.companies}))
"""The companies whose models or papers are the subject of a card."""
