"""Every encoding compiles to one graph, forward and backward (compiling.py says how)."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "what", ["some", *(pytest.param(what, marks=pytest.mark.slow) for what in ("rest", "to the end", "squares"))]
)
def test_every_encoding_compiles_to_one_graph(what: str) -> None:
    """One interpreter meets all laws, as a compiler takes longer to load than most of them to be checked."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.compiling", what],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
