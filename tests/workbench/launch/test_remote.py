"""What a far run says and keeps reaches the driver in an order from which it can go on elsewhere."""

import os
import queue
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench.launch.code_shipping import pack, unpack
from posenc.workbench.launch.remote import Changed, _passed_on
from posenc.workbench.run.job import Failure, Progress
from posenc.workbench.run.plan import LossCurve
from support.launch_jobs import counting


def passed_on(folder: Path, *things: Any) -> list[Any]:
    """All that reaches the driver of a run that said these things."""
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for thing in things:
        said.put(thing)
    return list(_passed_on(said, folder, {}))


def test_losses_come_before_the_state_that_follows_them(tmp_path: Path) -> None:
    """Whoever goes on from that state says later losses only."""
    (tmp_path / "run.state").write_bytes(b"after three steps")
    steps = [Progress("run", 1, step, LossCurve((float(step),))) for step in range(3)]
    result = Failure(counting(tmp_path, "ended").plan, "why")
    assert passed_on(tmp_path, *steps, result) == [*steps, Changed("run.state", b"after three steps"), result]


@pytest.mark.parametrize("mine", ["open", "link", "own"])
def test_modules_are_never_laid_where_somebody_else_may_write(
    mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    known = tmp_path / f"posenc-{os.getuid()}"
    if mine == "link":
        (tmp_path / "elsewhere").mkdir()
        known.symlink_to(tmp_path / "elsewhere")
    elif mine == "open":
        known.mkdir()
        known.chmod(0o777)
    (tmp_path / "mine.py").write_text("VALUE = 7")
    (laid,) = unpack(pack(tmp_path / "mine.py", bytes), bytes)
    assert laid.read_text() == "VALUE = 7"
    assert (known in laid.parents) == (mine == "own")
    top = next(folder for folder in laid.parents if folder.parent == tmp_path)
    assert not top.is_symlink()
    assert top.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 4321)
    (tmp_path / "posenc-4321").mkdir(mode=0o700)
    (tmp_path / "mine.py").write_text("VALUE = 7")
    (laid,) = unpack(pack(tmp_path / "mine.py", bytes), bytes)
    assert tmp_path / "posenc-4321" not in laid.parents


def test_what_a_run_raises_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such thing"):
        passed_on(tmp_path, ValueError("no such thing"))
