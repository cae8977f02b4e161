"""Python in a process of its own, for tests of what an interpreter loads or compiles, or that may end it."""

import os
import subprocess
import sys
from pathlib import Path


def python(*words: object, cwd: Path | None = None, **environment: str) -> str:
    """Return what Python prints with these words; its exit status must be 0."""
    command, own = [sys.executable, *map(str, words)], {**os.environ, **environment}
    run = subprocess.run(command, cwd=cwd, env=own, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
