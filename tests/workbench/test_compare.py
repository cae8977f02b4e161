"""compare: resumes to the same numbers, survives death, and says what it cannot do."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.errors import InvalidArgument, StudyError, UnknownName
from posenc.workbench.launch.local import Local
from posenc.workbench.run.job import Failure, Job, Report, ignore_progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.training import TrainingJob
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.presets import read_study
from posenc.workbench.study.study import Study, check_device
from support.studies import TINY, inline, python_text


def test_a_study_runs_once_and_a_second_call_finds_nothing_to_do(tmp_path: Path) -> None:
    text = python_text()
    with Ledger(tmp_path, write=True) as ledger:
        outcome = Comparison(TINY, text, ledger).run(inline)
        assert len(ledger.runs()) == 6
        assert Comparison(TINY, text, ledger).missing == []
        again = Comparison(TINY, text, ledger).run(inline)
        assert len(ledger.runs()) == 6
    assert [r.task.name for r in outcome.results] == ["ordering", "needle"]
    rows = {row.encoding: row for row in outcome.results[0].rows}
    assert set(rows) == set(TINY.encodings)
    assert rows["learned"].refusal.startswith("positions holds 31, but the learned table has 16 rows")
    assert set(rows["learned"].values) == {16}
    assert rows["rotary"].values == {r.encoding: r for r in again.results[0].rows}["rotary"].values
    weights = {path.stem for path in (tmp_path / "checkpoints").iterdir()}
    assert weights == {plan.id for plan in TINY.plans(text)}


def test_every_encoding_starts_from_the_same_weights_and_batches() -> None:
    from posenc.workbench.run.training import build
    from posenc.workbench.tasks import task

    text = python_text()
    plans = [p for p in TINY.plans(text) if p.task == "ordering"]
    made = task("ordering", text, 32)
    first, *others = (dict(build(plan, made).named_parameters()) for plan in plans)
    for other in others:
        shared = {k for k in first.keys() & other.keys() if not k.startswith("encoding.")}
        assert len(shared) == 28
        assert all((first[k] == other[k]).all() for k in shared)


def test_language_is_scored_on_fixed_targets_whole_windows_and_positions(tmp_path: Path) -> None:
    one = replace(TINY, encodings=("alibi",), tasks=("language",))
    with Ledger(tmp_path, write=True) as ledger:
        outcome = Comparison(one, python_text(), ledger).run(inline)
    (run,) = outcome.results[0].runs
    assert {(c.length, c.measure) for c in run.cells} == {
        *((n, m) for n in (128, 256) for m in ("loss", "window_loss", "loss_by_position")),
        *((128, m) for m in ("chance", "gate")),
    }
    assert len(run.cell(256, "loss").detail) == 4  # type: ignore[union-attr]


def die_once(folder: str) -> None:
    """Kill this process the first time it is asked to."""
    marker = Path(folder) / "died"
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_plan_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc.workbench.launch.local.attempt", dying_attempt)
    results: list[object] = []
    plans = replace(TINY, encodings=("nope",)).plans(python_text())
    Local(1)([TrainingJob(plan=plan, folder=tmp_path) for plan in plans], results.append, ignore_progress)
    assert sorted(type(r).__name__ for r in results) == ["Failure", "Run"]
    (failure,) = (r for r in results if isinstance(r, Failure))
    assert failure.plan.task == "needle"
    assert "died twice" in failure.reason


def dying_attempt(job: Job, report: Report):
    """Ordering dies once and then works; needle always dies."""
    if job.plan.task == "needle":
        os.kill(os.getpid(), signal.SIGKILL)
    die_once(str(job.folder))
    return job.run(report)


def test_a_config_overrides_a_preset_and_the_command_line_overrides_both(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'preset = "standard"\nseeds = 2\nencodings = ["alibi"]\ntext = "mine.txt"\n[steps]\nneedle = 5\n'
    )
    made = read_study(None, path, {"seeds": 4, "lengths": None})
    assert made.tasks == ("language", "ordering", "needle", "recent")
    assert (made.seeds, made.encodings, made.steps) == ((0, 1, 2, 3), ("alibi",), {"needle": 5})
    assert made.text == tmp_path / "mine.txt"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("sedes = 3", "did you mean 'seeds'"),
        ("seeds = [", "is not TOML"),
        ('preset = "quik"', "did you mean 'quick'"),
        ('seeds = "three"', "seeds='three' must be a list"),
        ("[steps]\nnedle = 3", "did you mean 'needle'"),
    ],
)
def test_a_config_with_a_mistake_is_refused(tmp_path: Path, toml: str, message: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(toml)
    with pytest.raises((UnknownName, StudyError, InvalidArgument), match=message):
        read_study(config=path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encodings": ("rotray",)}, "did you mean 'rotary'"),
        ({"encodings": ()}, "must list at least one"),
        ({"tasks": ("needle", "needle")}, "without duplicates"),
        ({"lengths": (0.5, 2)}, r"lengths=0\.5 must be a number, 1 … 65,536 × the trained length"),
        ({"seeds": 0}, "seeds=0 must be a number of seeds"),
        ({"dtype": "float23"}, "did you mean 'float32'"),
        ({"steps": {"needle": 0}}, "steps of needle=0 must be a whole number, 1 … 1,000,000,000 steps"),
        ({"layers": 0}, "layers=0 must be a whole number, 1 … 4,096 layers"),
        ({"heads": 5}, "width=64 must be a multiple of 2·heads=10"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        replace(Study(), **change)  # type: ignore[arg-type]


def test_a_device_that_is_not_here_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidArgument, match="device='nothing' cannot be used here"):
        check_device("nothing")


def test_gather_reads_without_training(tmp_path: Path) -> None:
    text = python_text()
    with Ledger(tmp_path, write=True) as ledger:
        Comparison(replace(TINY, tasks=("needle",)), text, ledger).run(inline)
    with Ledger(tmp_path) as ledger:
        assert [r.task.name for r in Comparison(TINY, text, ledger).outcome().results] == ["needle"]
