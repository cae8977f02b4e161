"""What is published agrees with itself: versions, the Pythons it names, the commands of its checks."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import posenc
from support.places import ROOT

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


def test_the_readme_lists_every_extra() -> None:
    (listed,) = re.findall(r"^Extras: ([^;]+);", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert set(re.findall("`([a-z]+)`", listed)) == set(PROJECT["optional-dependencies"])


def test_pages_install_posenc_from_where_it_is() -> None:
    """It is not on PyPI, where anybody may upload something else under its name."""
    pages = {page: page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]}
    named = [(page.name, found) for page, text in pages.items() for found in re.findall(r"\bposenc\[.*", text)]
    assert [(page, found) for page, found in named if not re.match(r"posenc\[[a-z,]+\](`| @ git\+)", found)] == []


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no Git repository to clone")
def test_the_hook_runs_from_a_clone(tmp_path: Path) -> None:
    """As pre-commit runs it: its environment is made in the clone; requirements are those of this environment."""
    yaml = pytest.importorskip("yaml")
    page = (ROOT / "docs" / "one-config.md").read_text()
    (repo,) = yaml.safe_load(re.findall(r"```yaml\n(repos:.*?)```", page, re.DOTALL)[0])["repos"]
    (used,) = repo["hooks"]
    clone, model, python = tmp_path / "clone", tmp_path / "model", tmp_path / "environment" / "bin" / "python"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    (hook,) = [
        hook for hook in yaml.safe_load((clone / ".pre-commit-hooks.yaml").read_text()) if hook["id"] == used["id"]
    ]
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": sysconfig.get_path("purelib")}
    environment = os.environ | offline
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python.parents[1]], check=True)
    install = [python, "-m", "pip", "install", "--quiet", ".", *hook["additional_dependencies"]]
    subprocess.run(install, cwd=clone, env=environment, check=True)
    model.mkdir()
    shutil.copy(ROOT / "tests" / "data" / "field" / "stated-factor.json", model / "config.json")
    for release, status in {"0.33.0": 0, "0.29.0": 1}.items():  # the older one does not read the factor
        words = [re.sub(r"(?<=vllm@)[\d.]+", release, word) for word in [*hook["entry"].split()[1:], *used["args"]]]
        command = [python.parent / "posenc", *words]
        done = subprocess.run(command, cwd=model, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
    origin = "import posenc; print(posenc.__file__)"
    done = subprocess.run(
        [python, "-c", origin], cwd=model, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(tmp_path))
