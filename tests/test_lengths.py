"""A model compiles and exports to one graph for every length (lengths.py says how)."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.lengths import CASES, TELLING

HERE = Path(__file__).parent


def check(asked: Iterable[tuple[str, str]], layers: int = 2) -> None:
    """One interpreter asks every case in its way, and starts once."""
    words = [word for way_and_case in asked for word in way_and_case]
    command = [sys.executable, "-W", "ignore", "-m", "support.lengths", str(layers), *words]
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    wrong = {case: what for case, what in json.loads(run.stdout).items() if what is not None}
    assert not wrong, "\n".join(f"{case}: {what}" for case, what in wrong.items())


def test_the_exported_graph_of_a_bias_has_no_longest_length() -> None:
    """A choice by length, made before asking for a compiler, bounded it at 1023, or at 127 if the bias learns."""
    check([("exported", "alibi"), ("exported", "kerple")], layers=1)


@pytest.mark.slow
def test_one_graph_serves_every_length() -> None:
    check(TELLING, layers=1)  # a graph grows with its layers, and so does the wait for it


@pytest.mark.slow
@pytest.mark.parametrize("way", ["compiled", "exported", "compiled as the lengths come"])
def test_one_graph_serves_every_length_in_every_case(way: str) -> None:
    check([(way, case) for case in CASES])
