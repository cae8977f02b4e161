"""The lint of words can fail: it finds old names, private words and empty variables."""

import pytest

from tools import words


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("posenc.mask", "class Sight: ...", "posenc.mask.Sight is called Mask"),
        ("posenc.mask", "class Mask:\n    documents: int", "posenc.mask.Mask.documents is called document_lengths"),
        ("posenc.attend", "def attention(q, *, impl): ...", "posenc.attend.attention.impl is called backend"),
        ("posenc.encodings.t5", "class T5:\n    doors = ()", "posenc.encodings.t5.T5.doors is called acts_on"),
        (
            "posenc.encodings.rotary",
            "class Rotary:\n    def __init__(self, schedule): ...",
            "posenc.encodings.rotary.Rotary.schedule is called scaling",
        ),
        ("posenc.schedules.yarn", "", "posenc.schedules.yarn is called posenc.scaling"),
    ],
)
def test_an_old_name_is_found(module: str, source: str, complaint: str) -> None:
    assert words.renamed(module, source) == [complaint]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("posenc.workbench.run.settings", "class Training:\n    schedule: str"),
        ("posenc.mask", "def _sight(sight): ...\nclass Mask:\n    def _meet(self, carry): ..."),
        ("posenc.encodings.rotary", "def rotate(q):\n    turn = q"),
    ],
)
def test_other_subjects_and_private_names_pass(module: str, source: str) -> None:
    assert words.renamed(module, source) == []


@pytest.mark.parametrize(
    "word", ["Sights", "doors", "carries", "told", "`impl=`", "Spectrum", "RoPE schedule", "computed otherwise"]
)
def test_a_private_word_is_found_where_it_stands(word: str) -> None:
    assert words.private_words("page", f"# Title\n\nHere {word} stands.") == [f"page:3 says {word.strip('`=')!r}"]


def test_plain_english_passes() -> None:
    assert words.private_words("page", "Rows are told\napart, by a learning-rate schedule.") == []


def test_variables_are_counted_and_too_many_are_listed() -> None:
    source = "found = 1\nfor own in ():\n    if (made := own):\n        path = found"
    assert words.empty_names(source) == [(1, "found"), (2, "own"), (3, "made")]
    assert words.too_many(["x"] * words.LIMIT) == []
    assert words.too_many(["x"] * (words.LIMIT + 1))[0] == "31 variables have empty names, 30 may:"


def test_every_command_shows_its_help_to_the_lint() -> None:
    places = dict(words.help_texts())
    assert "Train" in places["help of compare"] or "train" in places["help of compare"]
    assert any(place.startswith("help of extend ") for place in places)
