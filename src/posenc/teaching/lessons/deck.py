"""The quiz, with a reason for every wrong choice and with numbers computed by the library.

Nothing about the reader is stored.
"""

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from posenc.teaching.lessons.card import DECK, Card


def cards() -> list[dict[str, Any]]:
    """Return every card as a dictionary for the page, with reasons for options and with computed numbers."""
    return [
        asdict(card)
        | {
            "form": card.form,
            "options": [asdict(option) for option in card.shown],
            "number": computed(card.number) if card.number else None,
            "answer": answered(card),
        }
        for card in DECK
    ]


def answered(card: Card) -> str:
    """Return the answer in words, with the computed number filled in."""
    return card.answer.format(computed(card.number)) if card.number else card.answer


@lru_cache(maxsize=32)
def computed(name: str) -> float:
    """Compute the number for a card with the function of this name in ``numbers``."""
    from posenc.teaching.lessons import numbers

    return float(getattr(numbers, name)())
