"""Parts of a study in folders of their own become one: runs, weights, and states of runs under way."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.workbench.run.job import Progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import LossCurve
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.study import Study
from support.command_line import refusal, said
from support.studies import TINY, KilledError, inline, numbers, python_text

STUDY = replace(TINY, encodings=("nope",), tasks=("ordering",))
LONGER = replace(STUDY, encodings=("nope", "alibi"), steps=6)


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


@pytest.mark.usefixtures("every_step")
def test_a_study_killed_in_one_folder_goes_on_in_another(tmp_path: Path) -> None:
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
    for name in ("notes.md", ".ipynb_checkpoints"):  # not posenc's
        (two / "checkpoints" / name).mkdir()
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


def test_a_part_that_still_runs_is_merged_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While files are copied, runs end, with their weights, and a state is deleted."""
    one, two = tmp_path / "one", tmp_path / "two"
    train(one)
    (state := one / "checkpoints" / "under way.state").touch()
    copy = shutil.copyfile

    def copied_late(source: Path, target: Path) -> Path:
        if state.exists():
            state.unlink()
            train(one, LONGER)
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", copied_late)
    for count in (1, 2):
        assert merged(two, one) == [count]
        with Ledger(two) as ledger:
            assert {Path(name).stem for name in weights(two)} == ledger.ids()
    assert weights(two) == weights(one)


def test_a_merge_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Ledger(Path("part-1"), write=True).close()
    assert "no ledger in 'part-9'" in refusal("runs", "study", "--merge", "part-9")
    with Ledger(Path("study"), write=True):
        sentence = refusal("runs", "study", "--merge", "part-1")
    assert "another process is writing to 'study'; wait for it, or use another folder" in sentence


def test_parts_merge_into_the_tables_of_an_undivided_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six runs in parts of two; a part of none; a part that is asked for again trains nothing."""
    monkeypatch.chdir(tmp_path)

    def compared(folder: str, *words: str) -> str:
        small = "--encodings nope,alibi,rotary --tasks ordering,needle --steps 2 --answers 8 --lengths 1,2"
        return said("compare", *small.split(), "--launcher", "in-process", "--output", folder, *words)

    def tables(folder: str) -> tuple[str, bytes]:
        said("runs", folder, "--sort", "run", "--csv", f"{folder}.csv")
        rows = json.loads((tmp_path / folder / "tables.json").read_text())
        for row in (row for of_task in rows["training"].values() for row in of_task):
            row["rate"] = None  # of the clock
        return json.dumps(rows), (tmp_path / f"{folder}.csv").read_bytes()

    for number in (3, 1, 2):
        assert "2 runs, 0 already done" in compared(f"part-{number}", "--part", f"{number}/3")
    assert "2 runs, 2 already done" in compared("part-2", "--part", "2/3")
    assert "No run has finished yet" in compared("part-9", "--part", "9/9")
    assert said("runs", "part-9") == "no run of posenc compare has finished in part-9\n"
    assert "2 runs from part-1\n2 runs from part-2\n2 runs from part-3\n0 runs from part-9\n" in said(
        "runs", "study", "--merge", "part-*"
    )
    assert "6 runs, 6 already done" in compared("study")
    assert "6 runs, 0 already done" in compared("whole")
    assert tables("study") == tables("whole")


@pytest.mark.parametrize("words", ["compare --output s3://bucket/study", "runs s3://bucket/study"])
def test_an_address_is_no_folder(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "is a URL, not a folder; copy its files into a local folder first" in refusal(*words.split())
    assert list(tmp_path.iterdir()) == []
