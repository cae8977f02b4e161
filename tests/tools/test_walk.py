"""The walk over model types: their classes, its page, and that no type of the whole is read as what it is not."""

from pathlib import Path

import pytest
from tools.walk import Worker, results, versions
from tools.walk_page import END, START, page
from tools.walk_type import walked


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("arcee", "read and equal", ""),
        ("xlnet", "measured only", "is a family of transformers whose config is not read here"),
        ("vit", "cannot be built", "ViTModel takes pixel_values, no token ids"),
    ],
)
def test_the_class_of_a_type(name: str, kind: str, why: str) -> None:
    found = walked(name)
    assert found["class"] == kind
    assert why in str(found["why"])


def test_the_page_counts_and_gives_reasons(tmp_path: Path) -> None:
    path = tmp_path / "models.md"
    path.write_text(f"# Models\n\nKept.\n\n{START}\nold\n{END}\n")
    found = [
        {"type": "a", "class": "read and equal", "measured": "2 × turns", "turns": True, "why": ""},
        {"type": "b", "class": "cannot be built", "why": "needs x | y"},
    ]
    assert "1 read and equal" in page("5.23.0", found, 3, path)
    text = path.read_text()
    assert text.startswith("# Models\n\nKept.\n")
    assert "old" not in text
    assert "1 turn queries and keys as measured on token ids, and 1 of those (100%)" in text
    assert "1 more is still to be walked" in text
    assert "| `b` |  | needs x \\| y |" in text


@pytest.mark.slow
def test_a_type_that_takes_too_long_is_given_up() -> None:
    worker = Worker(limit=-59.9)
    assert worker.ask("llama") == {"type": "llama", "class": "cannot be built", "why": "takes more than -59.9 s"}
    worker.end()


@pytest.mark.real
def test_no_type_is_read_and_different() -> None:
    _, names = versions()
    assert [one for one in results(names, 2, 60.0) if one["class"] == "read and different"] == []
