"""Every row of what is taught is settled by something that exists, and the page of claims says so."""

import ast
from pathlib import Path

import pytest

from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.lab.rooms import ROOMS
from posenc.teaching.lessons.facts import FACTS, Fact
from posenc.teaching.views.catalogue import VIEWS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def exists(by: str) -> bool:
    """Whether what ``kind:name`` points at is there."""
    kind, _, name = by.partition(":")
    if kind == "claim":
        return name in CLAIMS
    if kind == "view":
        return name in VIEWS
    if kind == "room":
        return name in {f"{room.name}/{stage.question}" for room in ROOMS for stage in room.stages}
    if kind == "page":
        return (DOCS / name).is_file()
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text()) if kind == "test" and (ROOT / path).is_file() else ast.parse("")
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)


@pytest.mark.parametrize("fact", FACTS, ids=lambda f: f.row)
def test_every_row_is_settled_by_something_that_exists(fact: Fact) -> None:
    assert fact.by
    assert [by for by in fact.by if not exists(by)] == []


def test_the_check_can_fail() -> None:
    for by in (
        "claim:none",
        "view:none",
        "room:order/none",
        "page:none.md",
        "test:tests/none.py::x",
        f"test:{__file__}::none",
        "lab",
    ):
        assert not exists(by)
