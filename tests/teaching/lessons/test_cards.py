"""The cards: one right choice each, the numbers of the library, reasons for every wrong one, answers that exist."""

import json
from urllib.parse import parse_qsl

import pytest

from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.lab.rooms import ROOMS, find
from posenc.teaching.lessons import deck
from posenc.teaching.lessons.card import COMPANIES, DECK, KINDS, TOPICS, Card, read
from posenc.teaching.lessons.facts import FACTS
from support.lab import reply

ROWS = {fact.row for fact in FACTS}
STAGES = {f"{room.name}/{stage.question}" for room in ROOMS for stage in room.stages}


@pytest.mark.parametrize("card", DECK, ids=lambda card: card.name)
def test_a_card_is_whole_and_answered_by_a_stage_and_claims_that_exist(card: Card) -> None:
    assert set() < set(card.lessons) <= {0, 1, 2, 3, 4}
    assert all([card.companies, card.answer, card.stars in (1, 2, 3), card.stage in STAGES])
    assert sum(option.right for option in card.options) == bool(card.options)
    assert all(option.why.endswith(".") for option in card.options)
    assert "base" not in card.name or find(card.stage[6:]).answer(dict(parse_qsl(card.state or "base=100")))
    assert set() < set(card.claims) <= set(CLAIMS)
    assert set(card.rows) <= ROWS


def test_every_question_of_the_lessons_has_a_card() -> None:
    asked = {row for card in DECK for row in card.rows}
    assert {row for row in ROWS if row.startswith(("quiz-", "interview-"))} <= asked
    assert [card.rows[0] for card in DECK if card.interview] == [f"interview-{n}" for n in range(1, 8)]


def test_every_kind_topic_and_company_can_be_chosen() -> None:
    assert {card.kind for card in DECK} == set(KINDS)
    assert {card.topic for card in DECK} == set(TOPICS)
    assert len(COMPANIES) >= 5
    assert len({card.name for card in DECK}) == len(DECK)


def test_a_card_with_a_word_that_no_card_has_is_refused() -> None:
    with pytest.raises(TypeError, match="topics"):
        read('[x]\ntopics = "order"')


def test_the_deck_is_answered_without_a_page() -> None:
    asked = json.loads(reply("/api/quiz").body)
    assert [card["name"] for card in asked] == [card.name for card in DECK]
    (slowest,) = (card for card in asked if card["name"] == "slowest")
    assert abs(slowest["number"] - 60611) <= slowest["tolerance"]


def test_the_right_choice_stands_in_different_places() -> None:
    places = {next(i for i, o in enumerate(card.shown) if o.right) for card in DECK if card.options}
    assert len(places) >= 3


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("slowest", 60611, 62832),
        ("neighbours", 1.540, 1.282),
        ("base-100", 617, 628),
        ("table-length", 512, 511),
        ("shift", 0, 5),
        ("score", -1.1, 1.1),
        ("third-slope", 0.125, 0.25),
    ],
)
def test_numbers_are_the_lessons(name: str, right: float, wrong: float) -> None:
    (card,) = (card for card in deck.cards() if card["name"] == name)
    assert abs(card["number"] - right) <= card["tolerance"] < abs(card["number"] - wrong)
    assert "{" not in card["answer"]


def test_open_cards_are_compared_not_judged() -> None:
    (card,) = (card for card in deck.cards() if card["name"] == "interview-derive")
    assert (card["form"], card["number"], card["options"]) == ("open", None, [])
    assert "cos(a − b)" in card["answer"]
