"""Set-up ends in one sentence where it cannot go on, and a second run mends what was interrupted; pip is a stub."""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "set_up.py"
PIP = """
import os, sys, sysconfig, time
if os.environ["STUB_PIP"].startswith("hang"):
    half = os.path.join(sysconfig.get_path("purelib"), "half")
    os.mkdir(half)
    while not os.path.exists("go on"):
        time.sleep(0.05)
print(os.environ["STUB_PIP"])
sys.exit("ERROR" in os.environ["STUB_PIP"] or "WARNING" in os.environ["STUB_PIP"])
"""
"""What stands in for pip: it fails with what it is told to say, or stops in the middle of installing."""


def start(room: Path, pip: str | None) -> subprocess.Popen[str]:
    """Set-up in a folder of its own and a process group of its own; without a stub where ``pip`` is None."""
    stub = room / "stub" / "pip"
    if not stub.exists():
        stub.mkdir(parents=True)
        (stub / "__init__.py").touch()
        (stub / "__main__.py").write_text(PIP)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", room / ".venv"], check=True)
    own = {} if pip is None else {"PYTHONPATH": str(stub.parent), "STUB_PIP": pip}
    return subprocess.Popen(
        [sys.executable, SCRIPT, "compare"],
        cwd=room,
        env={**os.environ, **own},
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def half_way(room: Path) -> tuple[subprocess.Popen[str], Path]:
    """A set-up in the middle of installing, and what it has written."""
    process = start(room, "hang")
    while not (half := list(room.glob(".venv/lib/*/site-packages/half"))):
        assert process.poll() is None
        time.sleep(0.05)
    return process, half[0]


@pytest.mark.slow
def test_a_set_up_killed_half_way_is_mended_by_the_next(tmp_path: Path) -> None:
    process, half = half_way(tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / ".venv" / ".compare").exists()

    again = start(tmp_path, "Successfully installed posenc")
    said, errors = again.communicate()
    assert again.returncode == 0, errors
    assert "interrupted" in said
    assert not half.exists()
    assert (tmp_path / ".venv" / ".compare").exists()
    assert start(tmp_path, "").communicate()[0].count("interrupted") == 0


@pytest.mark.slow
def test_two_at_once_take_turns(tmp_path: Path) -> None:
    """As ``make -j`` starts them for two extras."""
    first, half = half_way(tmp_path)
    second = start(tmp_path, "Successfully installed posenc")
    assert second.stdout.readline() == "Another set-up is running in this folder; waiting for it to finish.\n"
    (tmp_path / "go on").touch()
    for process in (first, second):
        said, errors = process.communicate()
        assert process.returncode == 0, errors
        assert "interrupted" not in said
    assert half.exists()


@pytest.mark.slow
def test_an_environment_without_pip_is_made_afresh(tmp_path: Path) -> None:
    said, errors = start(tmp_path, None).communicate()
    assert "interrupted" in said
    assert "pip could not install" in errors  # the real pip, in a folder that holds no project
    assert (tmp_path / ".venv" / "bin" / "pip").exists()


@pytest.mark.parametrize(
    ("pip", "sentence", "unfinished"),
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'\n"
            "ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)",
            "the package index cannot be reached",
            False,
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "no space left on the disk",
            True,
        ),
        (
            "Collecting torch\nERROR: ResolutionImpossible",
            "pip could not install the packages: ResolutionImpossible",
            True,
        ),
    ],
    ids=["network", "disk", "packages"],
)
def test_a_failure_of_pip_is_one_sentence(tmp_path: Path, pip: str, sentence: str, unfinished: bool) -> None:
    """An unfinished environment is made afresh by the next set-up."""
    process = start(tmp_path, pip)
    _, said = process.communicate()
    assert process.returncode == 1
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert sentence in said
    assert not (tmp_path / ".venv" / ".compare").exists()
    assert (tmp_path / ".venv" / ".unfinished").exists() == unfinished


def test_an_old_python_is_told_so() -> None:
    source = SCRIPT.read_text()
    ast.parse(source, feature_version=(3, 6))
    space = {"__name__": "set_up"}
    exec(compile(source, SCRIPT, "exec"), space)
    with pytest.raises(Exception, match=r"Python 3\.11 or newer, but this is 3\.8\.18; .* PYTHON=python3\.12"):
        space["refuse_old"]((3, 8, 18))  # type: ignore[operator]
    space["refuse_old"]((3, 11, 0))  # type: ignore[operator]
