"""What is published agrees with itself: versions, the Pythons it names, the commands of its checks."""

import re
import tomllib
from pathlib import Path

import pytest

import posenc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_the_citation_names_this_version_and_licence() -> None:
    citation = dict(re.findall(r'^([a-z-]+): "?([^"\n]+)"?$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert (citation["version"], citation["license"]) == (posenc.__version__, PROJECT["license"])


def test_the_pythons_that_are_promised_are_those_that_are_tested() -> None:
    listed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={listed[0]}"
    quoted = ", ".join(f'"{python}"' for python in listed)
    assert f"python: [{quoted}]" in WORKFLOW


@pytest.mark.parametrize("file", [".github/workflows/ci.yml", ".ci/run", "README.md", "CONTRIBUTING.md"])
def test_every_target_that_is_named_is_there(file: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|run: |`)make ([a-z]+)", (ROOT / file).read_text(), re.MULTILINE))
    assert named
    assert named <= targets
