"""The rows of the lessons: each has counterparts that exist."""

import re
from pathlib import Path

import pytest

from posenc.pictures import wire
from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.lab import page
from posenc.teaching.lab.rooms import ROOMS, find
from posenc.teaching.lessons.card import DECK
from posenc.teaching.lessons.facts import (
    FACTS,
    LESSONS,
    Entry,
    Fact,
    entry,
    of_stage,
    teaching,
)
from support.pages import anchors

DOCS = Path(__file__).parents[3] / "docs"
ENTRIES = {fact.what: entry(fact) for fact in FACTS}
STAGES = {f"{room.name}/{stage.question}" for room in ROOMS for stage in room.stages}


def lost(made: Entry) -> list[str]:
    """What an entry points at and is not there."""
    claimed, asked = (anchors((DOCS / page).read_text()) for page in ("claims.md", "questions.md"))
    return [
        *(page for page in (*made.pages, *made.exercises) if not (DOCS / page).is_file()),
        *(name for name in made.claims if name not in CLAIMS or name not in claimed),
        *(stage for stage in made.stages if stage not in STAGES),
        *(card.name for card in made.cards if card.name not in asked),
    ]


def test_every_entry_points_at_what_exists() -> None:
    assert [(what, missing) for what, made in ENTRIES.items() if (missing := lost(made))] == []


@pytest.mark.parametrize(("kind", "name"), [("claim", "none"), ("page", "none.md"), ("room", "order/none")])
def test_an_entry_that_points_nowhere_is_found(kind: str, name: str) -> None:
    assert lost(entry(Fact("b1", "", (f"{kind}:{name}",)))) == [name]


def test_every_row_is_one_click_from_the_page() -> None:
    assert [what for what, m in ENTRIES.items() if not (m.pages or m.claims or m.exercises or m.cards)] == []


def told(made: Entry) -> list[str]:
    """The texts where a row leads: the first screens of stages, claims, cards and pages."""
    texts = [
        *((DOCS / page).read_text() for page in (*made.pages, *made.exercises)),
        *(f"{name} {CLAIMS[name].statement} {CLAIMS[name].precise}" for name in made.claims),
        *(f"{card.prompt} {card.answer}" for card in made.cards),
    ]
    for stage in map(find, (stage.partition("/")[2] for stage in made.stages)):
        shown = wire.view(stage.answer({}))
        tries = " ".join(words for words, _ in stage.tries)
        texts.append(f"{stage.heading} {stage.words} {tries} {stage.guess} {stage.controls} {shown}")
    return texts


def held(what: str, text: str) -> float:
    """The share of a row's words that a text holds, by first letters; 1 if it holds a number of the row."""
    words, found = (set(re.findall(r"[a-z]{3,}|\d\d[\d.]*", each.lower())) for each in (what, text))
    if any(word[0].isdigit() for word in words & found):
        return 1.0
    stems, known = ({word.rstrip("s")[:5] for word in each if word not in SMALL} for each in (words, found))
    return len(stems & known) / len(stems)


SMALL = {"the", "and", "that", "which", "with", "for", "its", "their", "into", "such", "than", "each", "every"}


def test_every_row_leads_to_its_own_words_or_number() -> None:
    assert [what for what, made in ENTRIES.items() if max(held(what, text) for text in told(made)) < 0.5] == []
    assert held("Shapes in the listings: (128, 512)", "A table of 512 rows") == 1
    assert held("Papers to read", "A table of 512 rows") == 0


def test_every_row_of_the_labs_lessons_leads_on() -> None:
    """To a stage, a card, a claim, or a page of the documentation that the lab lies beside."""
    html = page.paths(page.Site(saved=True, docs="../index.html"))
    rows = re.findall(r"<li>\n(.*?)</li>", html[html.index('class="path"') :], re.DOTALL)
    assert len(rows) == sum(len(section.rows) for lesson in LESSONS for section in lesson.sections)
    assert [row for row in rows if "<a href=" not in row] == []
    pages = {target for row in rows for target in re.findall(r'href="\.\./([^"]+)\.html"', row)}
    assert len(pages) > 15
    assert [name for name in pages if not (DOCS / f"{name}.md").is_file()] == []


def test_every_row_of_a_lesson_is_in_one_section() -> None:
    rows = {fact.row for fact in FACTS}
    for lesson in LESSONS:
        taught = [row for section in lesson.sections for row in section.rows]
        assert len(set(taught)) == len(taught), lesson.title
        assert set(taught) <= rows, lesson.title
    assert len(LESSONS) == 5
    assert all(by.partition(":")[0] in ("claim", "page", "room") for fact in FACTS for by in fact.by)


def test_a_row_names_the_sections_that_teach_it() -> None:
    assert [section.title for _, section in teaching("b5")] == ["13.2 Sinusoidal Positional Encoding"]
    assert ("Shift widget", "lesson-0-7") in [(s.title, s.address) for _, s in teaching("a-widget-shift")]


def test_what_a_lesson_gets_wrong_is_marked() -> None:
    numbered = {f"b{number}" for number in range(1, 29)}
    assert {fact.row for fact in FACTS if fact.errs} == numbered | {"other-free", "other-softer"}
    assert "- **Disputed:** Every dimension has its own speed (" in (DOCS / "lessons.md").read_text()


def test_a_card_stands_beside_its_stage_and_so_do_claims_and_exercises() -> None:
    shuffle = of_stage("order/shuffle")
    assert "exercises/remove.md" in shuffle.exercises
    assert {"two-fish-sentences", "equivariant"} <= set(shuffle.claims)
    assert {card.name for card in shuffle.cards} == {c.name for c in DECK if c.stage == "order/shuffle"}
