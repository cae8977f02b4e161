"""Every encoding compiles to one graph, forward and backward (compiling.py says how)."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


SLOW = [pytest.param(what, marks=pytest.mark.slow) for what in ("rest", "inductor, more")]


@pytest.mark.parametrize("what", ["some", "inductor", *SLOW])
def test_every_encoding_compiles_to_one_graph(what: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "compiling.py", what],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
