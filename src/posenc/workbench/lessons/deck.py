"""Check yourself: cards asked one at a time, judged by the library, every wrong choice with its reason.

Numeric answers are computed when they are asked for. Nothing about the reader is stored.
"""

import math
import re
from functools import lru_cache
from typing import Any

from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.lessons.card import DECK, Card


def cards() -> list[dict[str, Any]]:
    """Every card as a page shows it before an answer is given."""
    return [
        {
            "name": card.name,
            "kind": card.kind,
            "topic": card.topic,
            "stars": card.stars,
            "interview": card.interview,
            "lessons": card.lessons,
            "companies": card.companies,
            "form": card.form,
            "stage": card.stage,
            "claims": card.claims,
            "prompt": card.prompt,
            "options": [option.words for option in card.shown],
        }
        for card in DECK
    ]


def check(name: str, answer: str) -> dict[str, Any]:
    """Whether ``answer`` is right, and why: ``{"right": bool | None, "why": str, "answer": str}``.

    Args:
        name: of the card.
        answer: the number of the chosen option, from 0; a number as typed; anything for an open card.
    """
    card = _card(name)
    if card.form == "choice":
        if not answer.isdecimal() or int(answer) >= len(card.options):
            raise InvalidArgument(f"answer={answer[:20]!r} is no option; give 0 to {len(card.options) - 1}")
        chosen = card.shown[int(answer)]
        return {"right": chosen.right, "why": chosen.why, "answer": card.answer}
    if card.form == "number":
        right = abs(_number(answer) - computed(card.number)) <= card.tolerance
        return {"right": right, "why": _distance(right), "answer": answered(card)}
    return {"right": None, "why": "", "answer": card.answer}


def answered(card: Card) -> str:
    """The answer in words, with its number computed."""
    return card.answer.format(computed(card.number)) if card.number else card.answer


def _card(name: str) -> Card:
    for card in DECK:
        if card.name == name:
            return card
    raise UnknownName("card", name[:40], [card.name for card in DECK])


def _number(text: str) -> float:
    """A number as people type it: spaces and commas between thousands, either minus."""
    plain = re.sub(r"[\s\u202f,]", "", text.replace("−", "-"))
    if not re.fullmatch(r"-?\d{1,12}(\.\d{0,12})?", plain):
        raise InvalidArgument(f"answer={text[:20]!r} is not a number; write it like 60611 or -1.1")
    return float(plain)


def _distance(right: bool) -> str:
    return "As the library computes it." if right else "The library computes another number."


@lru_cache(maxsize=32)
def computed(name: str) -> float:
    """The number behind a card, from the library."""
    from posenc.workbench.lessons import numbers

    value: float = getattr(numbers, name)()
    if not math.isfinite(value):
        raise InvalidArgument(f"card number {name} is {value}; it must be finite")
    return value
