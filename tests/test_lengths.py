"""A model compiles and exports to one graph for every length (lengths.py says how)."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lengths import CASES

HERE = Path(__file__).parent
WAYS = ["compiled", "compiled as the lengths come", "exported"]


@functools.cache
def outcomes(way: str) -> dict[str, str | None]:
    """What went wrong in each case; one interpreter runs them all, and starts once."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "lengths.py", way], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    outcome: dict[str, str | None] = json.loads(run.stdout)
    return outcome


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", list(CASES))
def test_one_graph_serves_every_length(case: str, way: str) -> None:
    wrong = outcomes(way)[case]
    assert wrong is None, wrong
