"""The quiz: one card at a time, with a reason for every wrong choice and numbers from the library.

Nothing about the reader is stored.
"""

import math
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from posenc.errors import InvalidArgument
from posenc.teaching.lessons.card import DECK, Card


def cards() -> list[dict[str, Any]]:
    """Every card for a page: choices with their reasons, numbers computed by the library."""
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
    """The answer in words, with its number computed."""
    return card.answer.format(computed(card.number)) if card.number else card.answer


@lru_cache(maxsize=32)
def computed(name: str) -> float:
    """The number behind a card, from the library."""
    from posenc.teaching.lessons import numbers

    value: float = getattr(numbers, name)()
    if not math.isfinite(value):
        raise InvalidArgument(f"card number {name} is {value}; it must be finite")
    return value
