"""compare: a study runs once, from equal weights and batches, and its file and options say what runs."""

from dataclasses import replace
from pathlib import Path

from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.study import read_study
from support.studies import SHARED, TINY, inline, python_text, runs_in


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
    assert rows["learned"].refusal.startswith("positions contains 31, but the learned table has 16 rows")
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


def test_language_is_scored_on_fixed_targets_whole_windows_and_positions(shared_study: Path) -> None:
    run = next(run for run in runs_in(shared_study) if run.plan.task == "language")
    assert {(c.length, c.measure) for c in run.cells} == {
        *((n, m) for n in (128, 256) for m in ("loss", "window_loss", "loss_by_position")),
        *((128, m) for m in ("chance", "gate")),
    }
    assert len(run.cell(256, "loss").detail) == 4  # type: ignore[union-attr]


def test_a_config_overrides_a_preset_and_the_command_line_overrides_both(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'preset = "standard"\nseeds = 2\nencodings = ["alibi"]\ntext = "mine.txt"\n[steps]\nneedle = 5\n'
    )
    made = read_study(None, path, {"seeds": 4, "lengths": None})
    assert made.tasks == ("language", "ordering", "needle", "recent")
    assert (made.seeds, made.encodings, made.steps) == ((0, 1, 2, 3), ("alibi",), {"needle": 5})
    assert made.text == tmp_path / "mine.txt"


def test_gather_reads_without_training(shared_study: Path) -> None:
    with Ledger(shared_study) as ledger:
        asked = replace(SHARED, tasks=("ordering", "needle"))
        assert [r.task.name for r in Comparison(asked, python_text(), ledger).outcome().results] == ["needle"]
