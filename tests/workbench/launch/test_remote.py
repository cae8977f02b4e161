"""What a far run says and keeps reaches the driver in an order from which it can go on elsewhere."""

import queue
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench.experiments.job import Progress
from posenc.workbench.files import Changes
from posenc.workbench.launch.remote import Found, Kept, _passed_on, left


def passed_on(folder: Path, *things: Any) -> list[Any]:
    """All that reaches the driver of a run that said these things."""
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for thing in things:
        said.put(thing)
    return list(_passed_on(said, Changes(lambda: left(folder), {})))


def test_losses_come_before_the_state_that_follows_them(tmp_path: Path) -> None:
    """Whoever goes on from that state says later losses only."""
    (tmp_path / "run.state").write_bytes(b"after three steps")
    steps = [Progress("run", 1, step, (float(step),)) for step in range(3)]
    found = Found("a run")
    assert passed_on(tmp_path, *steps, found) == [*steps, Kept("run.state", b"after three steps"), found]


def test_what_a_run_raises_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such thing"):
        passed_on(tmp_path, ValueError("no such thing"))
