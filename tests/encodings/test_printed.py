"""``python -m posenc.encodings NAME``: formula, source and numbers of every encoding, without code per file."""

import re
import sys

import pytest

import posenc
from posenc.encodings.__main__ import main


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["posenc.encodings", *words])
    main()
    return capsys.readouterr().out


@pytest.mark.parametrize("name", posenc.CATALOGUE)
def test_every_encoding_is_printed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(monkeypatch, capsys, name)
    assert re.search(r"\b(19|20)\d\d\b|arXiv", text), "no source"
    *_, numbers, _, figure = text.splitlines()
    assert figure.startswith("a figure: posenc show attention")
    assert len(numbers.split()) == 8
    assert len({float(number) for number in numbers.split()}) > 1 or name in ("nope", "query-scale")


def test_the_numbers_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ALiBi: 16/√16 − (8 − p)/4 for keys p of ones under the first of four slopes."""
    *_, numbers, _, _ = printed(monkeypatch, capsys, "alibi").splitlines()
    assert [float(number) for number in numbers.split()] == [4 - (8 - p) / 4 for p in range(8)]
