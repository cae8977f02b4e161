"""Answers to requests to the lab: the view of a stage, the value under the pointer, and the result of a claim."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.pictures.numbers import MINUS, short
from posenc.pictures.tables import value_at
from posenc.pictures.view import View
from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.claims.claim import run
from posenc.teaching.lab import rooms


def view(question: str, texts: Mapping[str, str]) -> View:
    """Return the view of a stage for these values of its controls, given as strings."""
    asked = rooms.find(question)
    return asked.answer(texts) if asked.fresh else _remembered(question, tuple(sorted(texts.items())))


@lru_cache(maxsize=16)
def _remembered(question: str, texts: tuple[tuple[str, str], ...]) -> View:
    """Return a view. Recent views are kept, because the page requests the picture, its table and the value under
    the pointer separately, all from the same view.
    """
    return rooms.find(question).answer(dict(texts))


def value(question: str, texts: dict[str, str]) -> dict[str, str]:
    """Describe the value of one cell in a picture of the lab."""
    place = [texts.pop(name, "0") for name in ("panel", "row", "column")]
    for text in place:
        if not text.isdecimal() or len(text) > 6:
            raise InvalidArgument(f"{text[:40]!r} must be an index, counted from 0")
    return {"text": value_at(view(question, texts), *map(int, place))}


def claim(name: str) -> dict[str, Any]:
    """Run a claim, and return its verdict and the numbers that support it.

    Raises:
        InvalidArgument: the claim trains a model, which takes minutes.
    """
    asked = CLAIMS[one_of("claim", name[:40], CLAIMS)]
    if asked.slow:
        raise InvalidArgument(f"claim {name} trains a model; run it with posenc verify --slow --only {name}")
    outcome = run(asked)
    words = f"{'Confirmed' if outcome.stands else 'Not confirmed'}: {asked.verdict}"
    numbers = [
        f"{result.name}: "
        + (short(result.value) if abs(result.value) < 1e-4 else f"{result.value:.10g}".replace("-", MINUS))
        + f", expected {result.expected.replace('-', MINUS)}"
        for result in outcome.findings
    ]
    return {"verdict": words, "stands": outcome.stands, "findings": [*numbers, *filter(None, [outcome.error])]}
