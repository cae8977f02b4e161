"""``posenc tune``: builds the kernel, says where it is and what it gains; without a compiler one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.kernels import native


def tune(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "posenc", "tune", "--tokens", "64"]
    own = {**os.environ, "POSENC_CACHE": str(cache), "COLUMNS": "120", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=own)


@pytest.mark.skipif(native.compiler() is None, reason="no C++ compiler is installed")
def test_it_builds_once_and_shows_what_was_gained(tmp_path: Path) -> None:
    for _ in range(2):
        done = tune(tmp_path)
        assert done.returncode == 0, done.stderr
        (library,) = tmp_path.glob("native-*.so")
        assert str(library) in done.stdout.replace("\n", "")
        assert "native ÷ copy" in done.stdout
        assert done.stdout.count("interleaved") == 2
    assert library.with_suffix(".json").is_file()


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path) -> None:
    done = tune(tmp_path, PATH="", CXX="")
    assert done.returncode == 2
    assert done.stderr.startswith("error: a native kernel needs a C++ compiler")
    assert "apt install g++" in done.stderr
