"""The lowest versions that the metadata allows are those of oldest.txt, and the page of versions names them."""

import re
import tomllib

import pytest
from tools.walk_page import kept

from posenc.integrations.huggingface import config_class
from support.places import ROOT

NOT_OURS = {"anyio", "click", "numpy", "pyparsing"}
"""Pinned in oldest.txt at the age of the others, though no code of ours asks for a version."""


def floors() -> dict[str, str]:
    """Every ``name>=version`` of the library and its extras; tools that only build or test have none to keep."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = list(project["dependencies"])
    for extra, names in project["optional-dependencies"].items():
        if extra not in ("dev", "docs"):
            asked += [name for name in names if not name.startswith("posenc")]
    split = [re.split(r"\s*>=\s*|\s*[;,]", text) for text in asked]
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


def test_the_page_explains_floors_of_today() -> None:
    explained = re.findall(r"^\| (\w+) \| ([\d.]+) \|", (ROOT / "docs" / "versions.md").read_text(), re.MULTILINE)
    assert explained
    assert set(explained) <= set(floors().items())


def test_no_version_is_too_new() -> None:
    """What a release breaks is mended, or refused by what it lacks; constraints.txt has what was tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        *project["dependencies"],
        *(text for names in project["optional-dependencies"].values() for text in names),
    ]
    assert [text for text in asked if re.search(r"<|==|~=|!=", text.partition(";")[0])] == []


def test_the_tried_transformers_is_the_newest_one_whose_types_were_measured() -> None:
    assert kept()[-1].version == config_class.TRIED


def test_a_newer_transformers_is_said_to_be_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setattr(config_class, "class_version", lambda: "5.24.9")
    assert config_class.untried() == ""
    monkeypatch.setattr(config_class, "class_version", lambda: "5.99.0")
    assert config_class.untried().startswith("transformers 5.99.0 is newer than 5.24.0, the last tested version")
