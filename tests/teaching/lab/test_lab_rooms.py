"""Rooms, stages and views fit together, and their page is complete before any script runs."""

import ast
import inspect
import json
import re
from functools import cache
from pathlib import Path

import pytest

import posenc.teaching.lab as lab
from posenc.pictures import assets, wire
from posenc.pictures.view import Lines
from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.lab import page, rooms
from posenc.teaching.lab.controls import Control
from posenc.teaching.lab.page import Site
from posenc.teaching.lab.rooms import Guess
from posenc.teaching.lessons.facts import LESSONS
from posenc.teaching.views.catalogue import VIEWS
from support.lab import reply

LAB = Path(lab.__file__).parent
STAGES = list(rooms.BY_QUESTION.values())
opened = cache(lambda name: rooms.find(name).answer({}))
"""What a stage shows when it is opened."""


@pytest.mark.parametrize("stage", [stage for _, stage in STAGES], ids=lambda stage: stage.question)
def test_controls_are_arguments_of_the_view_and_tries_set_them(stage: rooms.Stage) -> None:
    known = inspect.signature(stage.function).parameters
    names = {control.name for control in stage.controls}
    assert {control.argument for control in stage.controls} <= set(known)
    assert not {"panel", "row", "column", "embed"} & names
    assert {*stage.picks, *(control.below for control in stage.controls if control.below)} <= names
    assert all(state.keys() <= names for _, state in stage.tries)


@pytest.mark.parametrize("room", rooms.ROOMS, ids=lambda room: room.name)
def test_a_room_is_short_and_names_are_shared_on_purpose(room: rooms.Room) -> None:
    assert room.title.endswith("?")
    assert len(re.findall(r"[.?!](?:\s|$)", room.words)) <= 3
    assert len(room.stages[0].tries) == 3
    shared: dict[str, Control] = {}
    for stage in room.stages:
        assert len(stage.heading) <= 36, stage.heading
        assert len(stage.words) <= 185, stage.words  # two lines
        for control in stage.controls:
            # One name in one room is one number in the address: it must mean the same in both stages.
            assert shared.setdefault(control.name, control).default == control.default, control.name


@pytest.mark.parametrize("name", ["count", "clock", "pictures"])
def test_a_distance_and_an_arrow_of_the_keyboard_are_no_keys(name: str) -> None:
    """Words are defined where they mean what is said: these rooms speak of no key of attention."""
    (room,) = (room for room in rooms.ROOMS if room.name == name)
    shown = re.findall(r'data-means="([^":]+)', page.room_page(room, {}))
    assert shown
    assert "key" not in shown


@pytest.mark.parametrize("path", sorted((LAB / "rooms").glob("*.toml")), ids=lambda path: path.stem)
def test_thousands_are_marked_as_everywhere(path: Path) -> None:
    assert not re.search(r"\d \d{3}\b", path.read_text("utf-8"))


def test_results_ask_which_model_reads_on_before_curves_tell_it() -> None:
    room, reading = rooms.BY_QUESTION["reading"]
    assert room.stages[0] == reading
    assert reading.guess


GUESSES = [(stage, stage.guess) for _, stage in STAGES if stage.guess]


@pytest.mark.parametrize(("stage", "guess"), GUESSES, ids=[stage.question for stage, _ in GUESSES])
def test_a_guess_is_asked_of_a_state_that_the_answer_changes(stage: rooms.Stage, guess: Guess) -> None:
    assert 0 <= guess.right < len(guess.answers) > 1
    assert all(why.endswith(".") for _, why in guess.answers)
    assert guess.asks.endswith("?")
    texts = [
        {c.name: state.get(c.name, c.default) for c in stage.controls} for state in (guess.before, guess.after)
    ]
    assert texts[0] != texts[1]
    assert wire.view(stage.answer(guess.before))["panels"] != wire.view(stage.answer(guess.after))["panels"]


def test_the_number_that_matters_is_a_readout() -> None:
    numbered = {name: stage for name, (_, stage) in rooms.BY_QUESTION.items() if stage.number}
    assert {"shift-both", "falloff", "floor", "scaling"} <= set(numbered)
    for name, stage in numbered.items():
        assert stage.number in opened(name).readouts, name


def test_what_is_counted_is_not_joined() -> None:
    """Layers and heads are points: nothing lies between two of them."""
    charts = [panel for name in rooms.BY_QUESTION for panel in opened(name).panels if isinstance(panel, Lines)]
    counted = [chart for chart in charts if chart.x.name in ("layer", "head")]
    assert counted
    assert all(chart.apart for chart in counted)


PUBLIC = {"torch", "math", "zlib", "posenc", "posenc.positions", "posenc.remap", "posenc.scaling"}


def imported(python: str) -> set[str]:
    """Modules that a snippet imports from."""
    nodes = list(ast.walk(ast.parse(python)))
    of_modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    return of_modules | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("name", VIEWS)
def test_snippets_import_the_public_library_alone(name: str) -> None:
    assert imported(VIEWS[name]().python) <= PUBLIC


def test_the_check_of_snippets_can_fail() -> None:
    assert not imported("from posenc.teaching.views.scores import distance") <= PUBLIC


def test_the_page_shows_the_state_of_its_address() -> None:
    html = page.room_page(rooms.BY_NAME["rotation"], {"m": "7", "turn": "radian"})
    assert re.search(r'id="shift-both-m"[^>]*value="7"', html)
    assert re.search(r'value="radian" checked', html)
    assert "<math" in html
    assert 'aria-current="page">The rotation' in html


JS = sorted(path for folder in (assets.STATIC, page.STATIC) for path in folder.rglob("*.js"))
FORMULA = re.compile(r"Math\.(sin|cos|tan|atan2?|exp|expm1|log\w*|pow|sqrt|hypot|PI|E)\b|\*\*")


def test_a_stage_says_which_questions_of_the_lessons_it_answers() -> None:
    html = page.room_page(rooms.BY_NAME["rotation"], {})
    for words in (
        "With RoPE, shifting both positions keeps the score: 1.700 at offset 0, −1.100 at offset 2",
        'href="/check?card=shift"',
        "posenc verify --only shift-by-five --only widget-numbers",
        '<a href="/lessons#lesson-0-7">Position, three ways, Shift widget</a>',
    ):
        assert words in html


def test_lessons_are_paths_under_their_own_headings() -> None:
    html = page.paths()
    assert re.findall(r"<h2>(.*?)</h2>", html) == [lesson.title for lesson in LESSONS]
    (clock,) = re.findall(r'<li id="lesson-4-2" data-stages="([^"]*)">', html)
    assert {"shift", "hands"} <= set(clock.split())
    assert "<strong>13.2 Sinusoidal Positional Encoding</strong>" in html
    assert re.search(r"<strong>Disputed:</strong> Every dimension has its own speed", html)
    assert page.paths(Site(saved=True)).count("results.html#curves") >= 2


def test_every_claim_is_asked_and_leads_to_its_verdict() -> None:
    html = page.claims()
    assert re.findall(r'<article class="card" data-name="([^"]*)"', html) == list(CLAIMS)
    for name in ("invariant", "equivariant", "cat-sat"):
        (card,) = re.findall(rf'data-name="{name}".*?</article>', html, re.S)
        rights = [words.strip(" …") for words in re.findall(r'data-right="1">([^<]*)<', card)]
        assert rights == [CLAIMS[name].verdict.value.capitalize()]
    assert "Run it" in html
    assert "Run it" not in page.claims(Site(saved=True))


def test_a_claim_is_run_when_asked_and_what_trains_is_refused() -> None:
    ran = json.loads(reply("/api/claim/slowest-wavelength").body)
    assert ran["verdict"] == "Confirmed: fails"
    assert ran["findings"][0] == "d=512: 60611.47717, expected 60611.477 ± 0.001"
    slow = next(name for name, claim in CLAIMS.items() if claim.slow)
    for name, words in ((slow, "posenc verify --slow --only"), ("nonsense", "unknown claim")):
        refused = reply(f"/api/claim/{name}")
        assert refused.status == 400
        assert words in refused.body.decode().lower()


@pytest.mark.parametrize("path", JS, ids=lambda path: path.stem)
def test_no_formula_but_that_of_ones_own_words_and_nothing_foreign_in_the_scripts(path: Path) -> None:
    foreign = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?://(?!www\.w3\.org/)"
    )
    source = path.read_text()
    assert bool(FORMULA.search(source)) == (path.name == "own_words.js")
    assert not re.search(foreign, source)
    assert source.startswith("//") or path.name == "first.js"  # which is data


def test_the_grep_for_formulas_can_fail() -> None:
    assert FORMULA.search("const angle = Math.sin(p * theta)")
    assert FORMULA.search("base ** (i / d)")


def test_the_stylesheet_names_no_colour() -> None:
    css = (assets.STATIC / "panels.css").read_text() + (page.STATIC / "lab.css").read_text()
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!\s*\{)|rgb\(|hsl\(", re.sub(r"#[a-z-]+(?=[ ,{.:])", "", css))
    assert "url(" not in css
