"""Numbers of runs reach TensorBoard and, offline, W&B: every one that a run tells, at its step, once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from posenc.commands.compare import _run
from posenc.errors import UnknownName
from posenc.workbench.run import tracking
from posenc.workbench.run.job import Progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.tracking import Tracker
from posenc.workbench.study.comparison import Comparison
from support.studies import TINY, inline, python_text


@dataclass(frozen=True)
class More(Progress):
    """What a later report may have besides: a number a step, and steps with a number."""

    slopes: tuple[float, ...] = ()
    tests: tuple[tuple[int, float], ...] = ()


def test_all_that_a_run_tells_is_written_once_by_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    written, ended = dict[tuple[str, int], Mapping[str, float]](), list[str]()

    def opened(run: str, name: str, first: int) -> Any:
        def log(values: Mapping[str, float], step: int) -> None:
            assert (name, step) not in written
            written[name, step] = dict(values)

        return tracking._Run(log, lambda: ended.append(f"{name} from {first}"))

    monkeypatch.setattr(tracking, "_tensorboard", lambda folder: opened)
    with Tracker("tensorboard", Path(), {"a1": "needle/rotary/seed 0"}) as tracker:
        tracker.note(More("a1", 1.0, 0, (5.0, 4.0), slopes=(0.5, 0.25), tests=((1, 9.0),)))
        tracker.note(Progress("b2", 1.0, 7, (3.0,)))
        tracker.note(More("a1", 2.0, 0, (5.0, 4.0, 2.0), slopes=(0.5, 0.25, 0.75)))  # goes on from its state
        tracker.end("a1")
    assert written == {
        ("needle/rotary/seed 0", 0): {"losses": 5.0, "slopes": 0.5},
        ("needle/rotary/seed 0", 1): {"losses": 4.0, "slopes": 0.25, "tests": 9.0},
        ("needle/rotary/seed 0", 2): {"losses": 2.0, "slopes": 0.75},
        ("b2", 7): {"losses": 3.0},
    }
    assert ended == ["needle/rotary/seed 0 from 0", "b2 from 7"]


def test_another_tracker_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown track 'tensorbord'; did you mean 'tensorboard'"):
        Tracker("tensorbord", Path())


def test_the_command_hands_every_run_to_the_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, ended = dict[str, int](), list[str]()
    monkeypatch.setattr(
        tracking,
        "_tensorboard",
        lambda folder: (
            lambda run, name, first: tracking._Run(
                lambda values, step: told.__setitem__(name, step), lambda: ended.append(name)
            )
        ),
    )
    study = replace(TINY, encodings=("nope", "rotary"), tasks=("ordering",))
    outcome = _run(Console(quiet=True), study, inline, tmp_path, "tensorboard")
    assert set(told) == {plan.name for plan in outcome.plans}
    assert set(told.values()) == {plan.steps - 1 for plan in outcome.plans}
    assert sorted(ended) == sorted(told)


def test_a_study_leaves_an_event_file_a_run(tmp_path: Path) -> None:
    """Read back by TensorBoard itself: the losses of the ledger, under each run's name."""
    pytest.importorskip("tensorboard", reason="tensorboard is not installed; type: pip install 'posenc[track]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    study = replace(TINY, encodings=("rotary",), tasks=("ordering",))
    with Ledger(tmp_path, write=True) as ledger:
        comparison = Comparison(study, python_text(), ledger)
        names = {plan.id: plan.name for plan in comparison.plans}
        with Tracker("tensorboard", tmp_path, names) as tracker:
            comparison.run(inline, report=tracker.note)
        (plan,) = comparison.plans
        (folder,) = (tmp_path / "tensorboard").iterdir()
        assert folder.name == plan.name.replace("/", "_")
        events = EventAccumulator(str(folder))
        events.Reload()
        scalars = events.Scalars("losses")
        assert [one.step for one in scalars] == list(range(plan.steps))
        assert [one.value for one in scalars] == pytest.approx(ledger.curve(plan.id).losses, rel=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_wandb_writes_a_run_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed; type: pip install wandb")
    monkeypatch.setenv("HOME", str(tmp_path))
    with Tracker("wandb", tmp_path, {"a1": "needle/rotary/seed 0"}) as tracker:
        tracker.note(Progress("a1", 1.0, 0, (5.0, 4.0)))
    wandb.teardown()  # waits for its service, which writes
    (folder,) = (tmp_path / "wandb").glob("offline-run-*-a1")
    (file,) = folder.glob("*.wandb")
    assert b"losses" in file.read_bytes()
    assert b"needle/rotary/seed 0" in file.read_bytes()
