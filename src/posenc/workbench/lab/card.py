"""What a quiz card is: a question, its choices, and the topics that cards are filed under."""

from dataclasses import dataclass

TOPICS = {
    "order": "order",
    "clock": "the clock",
    "table": "the table",
    "rotation": "the rotation",
    "bias": "the bias",
    "length": "longer contexts",
}


@dataclass(frozen=True)
class Option:
    """A choice, and what is said to whoever takes it."""

    words: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Card:
    """A question with choices, a number to type, or words to compare with one's own.

    ``number`` names a function of ``quiz_numbers``; an answer is right within ``tolerance`` of it. A card
    without options and number is open: the reader writes, then sees ``answer``.
    """

    name: str
    topic: str
    stars: int
    prompt: str
    answer: str
    options: tuple[Option, ...] = ()
    number: str = ""
    tolerance: float = 0.0

    @property
    def shown(self) -> tuple[Option, ...]:
        """The options in the page's order, turned by the card's own name: the right one may stand anywhere."""
        turn = sum(self.name.encode()) % max(1, len(self.options))
        return self.options[turn:] + self.options[:turn]

    @property
    def kind(self) -> str:
        return "choice" if self.options else "number" if self.number else "open"
