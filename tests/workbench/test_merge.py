"""Parts of a study in folders of their own become one: runs, weights, and states of runs under way."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import StudyError
from posenc.workbench.run import trainer
from posenc.workbench.run.job import Progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import LossCurve
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.study import Study
from support.studies import TINY, inline, numbers, python_text

STUDY = replace(TINY, encodings=("nope",), tasks=("ordering",))
LONGER = replace(STUDY, encodings=("nope", "alibi"), steps=6)


class KilledError(Exception):
    """What stops a study in the middle."""


def train(folder: Path, study: Study = STUDY, killed_at: int = 0) -> list[Progress]:
    """The study in this folder, killed at its so manyth step if at all; its reports."""
    reports: list[Progress] = []

    def report(progress: Progress) -> None:
        reports.append(progress)
        if killed_at and sum(len(each.curve.losses) for each in reports) >= killed_at:
            raise KilledError

    with Ledger(folder, write=True) as ledger:
        Comparison(study, python_text(), ledger).run(inline, report=report)
    return reports


def weights(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "checkpoints").iterdir()}


def merged(into: Path, *folders: Path) -> list[int]:
    with Ledger(into, write=True) as ledger:
        return [ledger.merge(folder) for folder in folders]


def test_a_study_killed_in_one_folder_goes_on_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REPORT_EVERY", "STATE_EVERY"):
        monkeypatch.setattr(trainer, name, 0.0)
    one, two = tmp_path / "one", tmp_path / "two"
    with pytest.raises(KilledError):
        train(one, LONGER, killed_at=9)
    assert merged(two, one) == [1]
    assert weights(two) == weights(one)
    reports = train(two, LONGER)
    assert len(reports[0].curve.losses) in range(1, 6)  # of the second run alone, and mid-way
    train(tmp_path / "never", LONGER)
    assert numbers(two) == numbers(tmp_path / "never")
    assert merged(tmp_path / "three", two, one) == [2, 0]
    assert weights(tmp_path / "three") == weights(two)  # without the state of a run that has ended


def test_parts_come_together_and_nothing_is_replaced(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    train(one)
    train(two, replace(STUDY, encodings=("alibi",)))
    train(one, LONGER)
    with Ledger(one, write=True) as ledger:
        ledger.note(Progress("of one alone", 1, 0, LossCurve((1.0, 2.0), 2, 0.5)))
    for folder in (one, two):  # of a run that both are at
        (folder / "checkpoints" / "under way.state").write_text(folder.name)
    before = weights(one)
    assert merged(one, two, two, one) == [1, 0, 0]
    assert merged(tmp_path / "three", two, one) == [1, 3]
    assert before.items() < weights(one).items()
    for folder in (one, tmp_path / "three"):
        with Ledger(folder) as ledger:
            assert len(ledger.ids()) == 4
            assert all(len(run.cells) and len(ledger.curve(run.plan.id).losses) for run in ledger.runs())
            assert ledger.curve("of one alone").losses == (1.0, 2.0)
            assert {Path(name).stem for name in weights(folder)} == {*ledger.ids(), "under way"}
    assert train(tmp_path / "three", LONGER) == []


def test_the_command_merges_folders_and_patterns_and_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, encoding in (("part-1", "nope"), ("part-2", "alibi")):
        train(Path(name), replace(STUDY, encodings=(encoding,)))
    result = CliRunner().invoke(app, ["runs", "study", "--merge", "part-*"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "1 run from part-1\n1 run from part-2\n" in result.output
    assert {"nope", "alibi"} <= set(result.output.split())
    error = CliRunner().invoke(app, ["runs", "study", "--merge", "part-9"]).exception
    assert "no ledger in 'part-9'" in str(error)
    with Ledger(Path("study"), write=True):
        error = CliRunner().invoke(app, ["runs", "study", "--merge", "part-1"]).exception
    assert isinstance(error, StudyError)
    assert "another process is writing" in str(error)


def test_an_address_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["compare", "--output", "s3://bucket/study"], ["runs", "s3://bucket/study"]):
        error = CliRunner().invoke(app, words).exception
        assert "is an address, not a folder; copy its files into a local folder first" in str(error)
    assert list(tmp_path.iterdir()) == []
