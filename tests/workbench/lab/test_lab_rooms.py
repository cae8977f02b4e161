"""Rooms, stages and questions fit together, and their page is complete before any script runs."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import posenc.workbench.lab as lab
from posenc.workbench.lab import page, parameters, rooms
from posenc.workbench.lab.questions import QUESTIONS
from posenc.workbench.lab.rooms.room import Room, Stage

LAB = Path(lab.__file__).parent
STAGES = [(room, stage) for room in rooms.ROOMS for stage in room.stages]


@pytest.mark.parametrize("name", QUESTIONS)
def test_parameters_are_arguments_of_the_view(name: str) -> None:
    known = inspect.signature(QUESTIONS[name].function).parameters
    asked = [p.argument or p.name for p in QUESTIONS[name].parameters]
    assert set(asked) <= set(known)
    assert not {"panel", "row", "column"} & {p.name for p in QUESTIONS[name].parameters}
    for p in QUESTIONS[name].parameters:
        assert p.read(p.write(p.default)) == p.default


@pytest.mark.parametrize(("room", "stage"), STAGES, ids=[f"{r.name}-{s.question}" for r, s in STAGES])
def test_every_stage_asks_a_question_and_its_tries_are_states_of_it(study: Path, room: Room, stage: Stage) -> None:
    question = QUESTIONS[stage.question]
    names = {p.name for p in question.parameters}
    assert set(stage.picks) <= names
    for t in stage.tries:
        assert question.answer(t.state).panels


@pytest.mark.parametrize("room", rooms.ROOMS, ids=lambda room: room.name)
def test_rooms_are_short_and_names_are_shared_on_purpose(room: Room) -> None:
    assert room.title.endswith("?")
    assert len(re.findall(r"[.?!](?:\s|$)", room.words)) <= 3
    assert len(room.stages[0].tries) == 3
    shared: dict[str, parameters.Parameter] = {}
    for stage in room.stages:
        for p in QUESTIONS[stage.question].parameters:
            # One name in one room is one number in the address: it must mean the same in both stages.
            assert shared.setdefault(p.name, p).default == p.default, p.name


def test_the_page_shows_the_state_of_its_address() -> None:
    html = page.room_page(rooms.find("rotation"), {"m": "7", "turn": "radian"})
    assert re.search(r'id="shift-both-m"[^>]*value="7"', html)
    assert re.search(r'value="radian" checked', html)
    assert "<math" in html
    assert 'aria-current="page">The rotation' in html


def test_no_text_of_an_address_reaches_the_page_unescaped() -> None:
    html = page.room_page(rooms.find("order"), {"sentence": '"><script>alert(1)</script>', "order": '"x'})
    assert "<script>alert" not in html
    assert 'data-value="&quot;x"' in html


def test_the_page_is_made_without_torch() -> None:
    for name in (
        "page",
        "rooms/room",
        "questions",
        "parameters",
        "replies",
        "server",
        "guard",
        "formulas",
        "../scene/colours",
    ):
        tree = ast.parse((LAB / f"{name}.py").read_text())
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        found = {getattr(node, "module", None) or node.names[0].name for node in top}  # type: ignore[attr-defined]
        assert not {m for m in found if m and m.split(".")[0] in ("torch", "matplotlib")}, name
        assert not {m for m in found if m and m.startswith("posenc.workbench.views")}, name


JS = sorted((LAB / "static").rglob("*.js"))
FORMULA = re.compile(r"Math\.(sin|cos|tan|atan2?|exp|expm1|log\w*|pow|sqrt|hypot|PI|E)\b|\*\*")


@pytest.mark.parametrize("path", JS, ids=lambda path: path.name)
def test_no_formula_and_nothing_foreign_in_the_scripts(path: Path) -> None:
    source = path.read_text()
    assert not FORMULA.search(source)
    assert source.startswith("//")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", source)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source)
    assert len(source.splitlines()) <= 350


def test_the_grep_for_formulas_can_fail() -> None:
    assert FORMULA.search("const angle = Math.sin(p * theta)")
    assert FORMULA.search("base ** (i / d)")


def test_the_stylesheet_names_no_colour() -> None:
    css = (LAB / "static" / "lab.css").read_text()
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!\s*\{)|rgb\(|hsl\(", re.sub(r"#[a-z-]+(?=[ ,{.:])", "", css))
    assert "url(" not in css
