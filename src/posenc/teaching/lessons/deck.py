"""Check yourself: cards asked one at a time, every wrong choice with its reason, numbers by the library.

Nothing about the reader is stored.
"""

import math
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from posenc.errors import InvalidArgument
from posenc.teaching.lessons.card import DECK, Card


def cards() -> list[dict[str, Any]]:
    """Every card as a page asks and judges it: choices with their reasons, numbers as the library computes them."""
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
