"""A run of tests that was killed goes on with what had not passed, and forgets all that once the sources change."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import resume
from support.processes import python

TESTS = """
import os, signal

def test_first(): pass

def test_second():
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)

def test_third(): assert not os.environ.get("FAILS")
"""


def run(folder: Path, **environment: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "support.resume", "-p", "no:cacheprovider", "-c", os.devnull]
    command += ["--rootdir", str(folder), "--resume", str(folder / "passed"), "-v", str(folder / "test_small.py")]
    path = os.pathsep.join(str(resume.ROOT / part) for part in ("tests", "."))
    more = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    return subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, cwd=folder).stdout


@pytest.mark.slow
def test_a_killed_run_goes_on_with_what_had_not_passed(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(TESTS)
    run(tmp_path, DIES="1")
    assert "1 failed, 1 passed, 1 deselected" in run(tmp_path, FAILS="1")
    assert "1 passed, 2 deselected" in run(tmp_path)
    passed = (tmp_path / "passed").read_text()
    (tmp_path / "passed").write_text("other sources\n" + passed.split("\n", 1)[1])
    assert "3 passed" in run(tmp_path)


@pytest.mark.slow
def test_make_slow_writes_it_so_that_pytest_knows_it_before_its_root() -> None:
    """As ``--resume FILE`` it is taken for a path to test, where no other is given."""
    (line,) = [line for line in (resume.ROOT / "Makefile").read_text().splitlines() if "--resume" in line]
    words = line.split()
    python(*words[words.index("-m") :], "--markers", cwd=resume.ROOT)


def test_every_source_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1")
    before = resume.sources(tmp_path)
    (tmp_path / "src" / "a.py").write_text("a = 2")
    assert resume.sources(tmp_path) != before
    monkeypatch.setattr(resume, "_version", lambda name: "6.0")
    assert resume.sources(tmp_path) != before
