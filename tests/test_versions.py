"""The lowest versions that the metadata allows are those of oldest.txt, and the page of versions names them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_OURS = {"anyio", "click", "numpy", "pyparsing"}
"""Pinned in oldest.txt at the age of the others, though no code of ours asks for a version."""


def floors() -> dict[str, str]:
    """Every ``name>=version`` of the library and its extras; tools that only build or test have none to keep."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = list(project["dependencies"])
    for extra, names in project["optional-dependencies"].items():
        if extra not in ("dev", "docs"):
            asked += [name for name in names if not name.startswith("posenc")]
    split = [re.split(r"\s*>=\s*|\s*;", text) for text in asked]
    return {parts[0]: parts[1] for parts in split}


def pins() -> dict[str, str]:
    lines = (ROOT / "oldest.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def parts(version: str) -> list[int]:
    numbers = [int(n) for n in version.split(".")]
    return numbers + [0] * (3 - len(numbers))


def test_the_floors_are_the_versions_that_were_tested() -> None:
    pinned = pins()
    assert {name: parts(floor) for name, floor in floors().items()} == {
        name: parts(version) for name, version in pinned.items() if name not in NOT_OURS
    }


def test_the_page_names_every_floor() -> None:
    page = (ROOT / "docs" / "versions.md").read_text()
    assert [name for name, floor in floors().items() if f"| {name} | {floor} |" not in page] == []
