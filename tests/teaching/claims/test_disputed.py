"""What lessons dispute: the kept numbers give the verdicts, their sentences, and nothing without them."""

import math
from typing import Any

import pytest

from posenc.teaching.claims import disputed, verdicts
from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.claims.claim import run

NAMES = ("rope-extrapolates-better", "learned-inside-its-range", "trained-short-tested-long")
STORED: dict[str, Any] = verdicts.stored()


def test_the_sentences_are_made_of_the_kept_numbers() -> None:
    assert verdicts.sentences(STORED["losses"]) == STORED["sentences"]
    assert STORED["sentences"].keys() == set(NAMES)
    assert all(CLAIMS[name].precise == STORED["sentences"][name] for name in NAMES)


def test_kept_numbers_say_when_and_how_they_came_about() -> None:
    assert STORED["command"] == "python tools/verdicts.py"
    assert STORED["date"] >= "2026-11-22"
    assert STORED["hardware"]
    for by_length in STORED["losses"].values():
        assert all(len(seeds) == len(verdicts.SEEDS) >= 5 for seeds in by_length.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_stands_on_the_kept_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CLAIMS[name].slow
    monkeypatch.setattr(disputed, "anew", lambda: STORED["losses"])
    assert run(CLAIMS[name]).stands


@pytest.mark.parametrize("name", NAMES)
def test_other_numbers_would_break_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alike = {model: {n: [2.0, 2.1, 2.2, 2.3, 2.4] for n in by} for model, by in STORED["losses"].items()}
    monkeypatch.setattr(disputed, "anew", lambda: alike)
    assert not run(CLAIMS[name]).stands


def test_the_grid_is_what_the_numbers_are_of() -> None:
    grid = {f"{encoding}@{study.train_length}" for study in verdicts.STUDIES for encoding in study.encodings}
    assert grid == set(STORED["losses"])
    settings = ("steps", "batch", "train_length")
    read = {math.prod(study.of(name, "language") for name in settings) for study in verdicts.STUDIES}
    assert len(read) == 1
