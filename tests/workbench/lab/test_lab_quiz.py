"""The cards: one right choice each, numbers that are the library's, reasons for every wrong one."""

import pytest

from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.lab import quiz
from posenc.workbench.lab.card import TOPICS, Card

DECK = quiz.DECK


@pytest.mark.parametrize("card", DECK, ids=lambda card: card.name)
def test_cards_are_whole(card: Card) -> None:
    assert card.topic in TOPICS
    assert card.stars in (1, 2, 3)
    assert card.answer
    if card.options:
        assert sum(option.right for option in card.options) == 1
        assert all(option.why.endswith(".") for option in card.options)
        right = next(i for i, option in enumerate(card.shown) if option.right)
        for i in range(len(card.options)):
            assert quiz.check(card.name, str(i))["right"] is (i == right)


def test_the_right_choice_stands_in_different_places() -> None:
    places = {next(i for i, o in enumerate(card.shown) if o.right) for card in DECK if card.options}
    assert len(places) >= 3


@pytest.mark.parametrize(
    ("card", "right", "wrong"),
    [
        ("slowest", "60 611", "62 832"),
        ("neighbours", "1.540", "1.282"),
        ("base-100", "617", "628"),
        ("table-length", "512", "511"),
        ("shift", "0", "5"),
        ("score", "−1.100", "1.100"),
        ("third-slope", "0.125", "0.25"),
    ],
)
def test_numbers_are_the_lessons(card: str, right: str, wrong: str) -> None:
    judged = quiz.check(card, right)
    assert judged["right"] is True
    assert "{" not in judged["answer"]
    assert quiz.check(card, wrong)["right"] is False


def test_open_cards_are_compared_not_judged() -> None:
    judged = quiz.check("interview-derive", "anything")
    assert judged["right"] is None
    assert "cos(a − b)" in judged["answer"]


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="is not a number; write it like"):
        quiz.check("slowest", "about sixty thousand")
    with pytest.raises(InvalidArgument, match="is no option; give 0 to 3"):
        quiz.check("fish", "9")
    with pytest.raises(UnknownName, match="did you mean 'fish'"):
        quiz.check("fsh", "0")


def test_cards_do_not_carry_their_answers() -> None:
    assert all(set(card) == {"name", "topic", "stars", "kind", "prompt", "options"} for card in quiz.cards())
    assert len(quiz.cards()) >= 20
