"""The walk over all model types: it goes on after a type that takes too long, and tells two versions apart."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tools.walk import results, told
from tools.walk_page import kept
from tools.walk_type import SCALED, walked

from posenc.integrations.huggingface.families import FAMILIES
from tools import walk, walk_type


@pytest.mark.slow
def test_a_type_that_takes_too_long_is_left_and_the_next_is_taken() -> None:
    late = {"type": "llama", "class": "cannot be built", "why": "takes more than 0.2 s"}
    assert [*results(["llama"], workers=1, limit=0.2)] == [late]  # less than it takes to import the model's code
    assert [found["class"] for found in results(["llama", "t5"], workers=2, limit=60.0)] == ["read and equal"] * 2


def found(name: str, kind: str, measured: str = "", why: str = "") -> dict[str, object]:
    return {"type": name, "class": kind, "measured": measured, "why": why, "turns": "turn" in measured}


def test_two_versions_are_compared_and_the_page_is_the_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = {
        "5.9.0": [
            found("a", "read and equal", "2 pairs turn"),
            found("b", "cannot be built", why="one"),
            found("c", "has no positions"),
            found("e", "read and equal", "to 4,314,711 positions"),
        ],
        "5.10.1": [
            found("a", "read and equal", "4 pairs turn") | {"more": {SCALED: "equal", "one": "different: base"}},
            found("b", "cannot be built", why="not in '/home/me/site-packages/transformers/b.py'"),
            found("d", "has no positions"),
            found("e", "read and equal", "to 4,314,710 positions"),
        ],
    }
    for version, ones in walks.items():
        (tmp_path / f"walk-{version}.types").write_text(
            "\n".join(("2026-01-02", *(str(one["type"]) for one in ones)))
        )
        (tmp_path / f"walk-{version}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ones))
    monkeypatch.setattr(walk, "KEPT", tmp_path)
    older, newer = kept(tmp_path)
    said = told(older)
    assert "1 types were added and 1 removed; of 3 measured in both versions, 1 are measured or read diff" in said
    assert "| `a` | read and equal: 2 pairs turn | read and equal: 4 pairs turn |" in said
    text = told(newer)
    assert text.startswith("transformers 5.10.1 has 4 model types. 1 of the 4 measured ")
    for words in (
        "`python -m tools.walk`, 2026-01-02)",
        "| read and equal | 2 | ",
        "**Has no positions:** `d`.\n\n**Cannot be built:** `b`.",
        f"{SCALED}: 1 read as measured, 0 differently, 0 not compared",
        "Published configs of these types: 0 read as measured, 1 differently",
    ):
        assert words in text
    assert text.endswith(said)


def test_a_factor_that_is_read_otherwise_under_a_scaling_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    family = replace(FAMILIES["gpt_neox"], ignored_rope_keys=("mscale",))
    monkeypatch.setitem(FAMILIES, "gpt_neox", family)
    result = walked("gpt_neox")
    assert result["class"] == "read and different"
    assert "cos and sin are multiplied by 1.138629 in what was read, 1.1296 in the measured model" in result["why"]
    assert result["more"]["redpajama_3b_v1"] == "equal"


@pytest.mark.slow
def test_a_type_is_walked_under_stated_factors_and_by_its_published_configs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert walked("gpt_neox")["more"] == {SCALED: "equal", "redpajama_3b_v1": "equal", "pythia-1.4b": "equal"}
    monkeypatch.setattr(walk_type, "write", lambda *_, **__: {"rope_parameters": {"rope_type": "banana"}})
    assert walked("gpt_neox")["more"][SCALED].startswith("not compared: ")
