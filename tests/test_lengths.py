"""A model compiles and exports to one graph for every length (lengths.py says how)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WAYS = ["compiled", pytest.param("compiled as the lengths come", marks=pytest.mark.slow), "exported"]


@pytest.mark.parametrize("way", WAYS)
def test_one_graph_serves_every_length(way: str) -> None:
    """One interpreter runs every case, and starts once."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "lengths.py", way], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    wrong = {case: what for case, what in json.loads(run.stdout).items() if what is not None}
    assert not wrong, "\n".join(f"{case}: {what}" for case, what in wrong.items())
