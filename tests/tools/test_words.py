"""The lint of words can fail: it finds private words and empty variables."""

import pytest

from tools import words


def test_a_private_word_is_found_where_it_stands() -> None:
    for word in ("Sights", "carries", "`impl=`", "RoPE schedule", "computed otherwise", "one a head"):
        assert words.private_words("page", f"# Title\n\nHere {word} stands.") == [
            f"page:3 says {word.strip('`=')!r}"
        ]


def test_plain_english_passes() -> None:
    assert words.private_words("page", "Rows are told\napart, by a learning-rate schedule.") == []


def test_variables_are_counted_and_too_many_are_listed() -> None:
    source = "found = 1\nfor own in ():\n    if (made := own):\n        path = found"
    assert words.empty_names(source) == [(1, "found"), (2, "own"), (3, "made")]
    assert words.too_many(["x"] * words.LIMIT) == []
    assert words.too_many(["x"] * (words.LIMIT + 1))[0] == "25 variables have empty names, but at most 24 may:"


def test_every_command_shows_its_help_to_the_lint() -> None:
    places = dict(words.help_texts())
    assert "Train" in places["help of compare"] or "train" in places["help of compare"]
    assert any(place.startswith("help of extend ") for place in places)


@pytest.mark.parametrize(
    ("phrase", "english"),
    [
        ("say placed once a forward,", False),
        ("say the ids of every forward", False),
        ("say Nobody may look.", False),
        ("say reads one thing otherwise", False),
        ("say the length at hand", False),
        ("once per forward pass", True),
        ("of a forward pass", True),
        ("null otherwise", True),
        ("rotates a key", True),
    ],
)
def test_phrases_that_are_no_english_are_refused_in_source_too(phrase: str, english: bool) -> None:
    assert (words.private_words("file", phrase, words.PROSE) == []) == english
