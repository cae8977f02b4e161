"""A study opened where people work: frames, figures that draw themselves, and a table for everybody else."""

import csv
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import posenc.workbench
from posenc.commands.runs import runs
from posenc.errors import InvalidArgument, StudyError, UnknownName
from posenc.pictures.draw import draw
from posenc.workbench.notebook import Opened
from posenc.workbench.run.ledger import Ledger
from support.places import ROOT
from support.studies import SHARED


def test_a_study_opens_as_frames(shared_study: Path) -> None:
    opened = posenc.workbench.open(shared_study)
    assert len(opened.runs) == 6
    assert set(opened.runs.encoding) == {*SHARED.encodings}
    assert {"width", "warm_up", "final_loss", "tokens_per_second", "hardware"} < set(opened.runs.columns)
    one = opened.losses[opened.losses.run == opened.runs.run[0]]
    assert list(one.step) == list(range(opened.runs.steps[0]))
    assert set(opened.numbers[opened.numbers.task == "needle"].length) == {64, 128}
    assert sorted(opened.verdicts.task) == ["language"] * 3 + ["needle"] * 3
    assert list(opened.verdicts.columns) == ["task", "encoding", "64", "128", "256", "verdict"]
    assert "6 runs" in repr(opened)


def test_figures_draw_themselves_and_are_saved(shared_study: Path, tmp_path: Path) -> None:
    opened = Opened(shared_study)
    for drawn in (opened.over_lengths("needle"), opened.over_steps("language")):
        assert "<svg" in drawn._repr_html_()
        assert repr(drawn).endswith("a notebook displays it, and save(path) writes it")
    assert opened.over_steps("needle").save(tmp_path / "losses.png").stat().st_size > 1000


def test_a_column_of_a_paper_is_narrow_has_no_title_and_keeps_its_text(shared_study: Path, tmp_path: Path) -> None:
    drawing = Opened(shared_study).over_lengths("needle")
    inches = {}
    for width in ("page", "column"):
        svg = drawing.save(tmp_path / f"{width}.svg", width).read_text()
        inches[width] = float(re.search(r'<svg [^>]*width="([\d.]+)pt"', svg)[1]) / 72  # type: ignore[index]
        assert drawing.save(tmp_path / f"{width}.pdf", width).read_bytes().startswith(b"%PDF")
    assert inches == {"page": pytest.approx(7.0), "column": pytest.approx(3.3)}
    assert draw(drawing.view)._suptitle is not None  # type: ignore[attr-defined]
    assert draw(drawing.view, column=True)._suptitle is None  # type: ignore[attr-defined]
    with pytest.raises(UnknownName, match="unknown width 'colum'; did you mean 'column'"):
        drawing.save(tmp_path / "x.svg", "colum")


def test_a_figure_of_what_is_not_there_is_a_sentence(shared_study: Path, copied_study: Path) -> None:
    with closing(sqlite3.connect(copied_study / "ledger.sqlite", isolation_level=None)) as ledger:
        ledger.execute("DELETE FROM steps")
    with pytest.raises(StudyError, match=r"runs of 'needle' in .* have no losses by step.*; run the study again"):
        Opened(copied_study).over_steps("needle")
    for figure in (Opened(shared_study).over_steps, Opened(shared_study).over_lengths):
        with pytest.raises(UnknownName, match="unknown task 'nedle'; did you mean 'needle'"):
            figure("nedle")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_runs_are_filtered_sorted_and_exported(shared_study: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    runs(shared_study, where=["task='needle'", "width=64"], sort="-final_loss", csv=target, what="runs")
    losses = [float(row["final_loss"]) for row in rows(target)]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    for column in ("encoding", "run"):  # SQL would take the minus from text
        runs(shared_study, sort=f"-{column}", csv=target, what="runs")
        shown = [row[column] for row in rows(target)]
        assert shown == sorted(shown, reverse=True) != sorted(shown)
    runs(shared_study, where=["encoding='nope'"], csv=target, what="steps")
    assert len(rows(target)) == 2 + 2
    runs(shared_study, csv=target)
    assert set(rows(target)[0]) == {
        "run",
        "task",
        "encoding",
        "seed",
        "length",
        "measure",
        "value",
        "count",
        "note",
    }
    for condition, why in (
        ("tsk = 'needle'", "tsk"),
        ("task = needle", "needle"),
        ("true); DROP TABLE runs; --", "one"),
    ):
        with pytest.raises(InvalidArgument, match=rf"with quoted strings, .*{why}.*; the columns are run, "):
            runs(shared_study, where=[condition])


def test_the_views_of_a_ledger_are_there_for_any_program(shared_study: Path) -> None:
    """What sqlite3 alone reads is what the frames hold."""
    opened = Opened(shared_study)
    with closing(sqlite3.connect(shared_study / "ledger.sqlite")) as ledger:
        for view, frame in (("settings", opened.runs), ("numbers", opened.numbers)):
            cursor = ledger.execute(f"SELECT * FROM {view}")
            assert [name for name, *_ in cursor.description] == list(frame.columns)
            assert len(cursor.fetchall()) == len(frame)


def test_a_ledger_without_views_is_read(shared_study: Path, copied_study: Path) -> None:
    """A study from before the views, whose plans lack a setting that came since."""
    with closing(sqlite3.connect(copied_study / "ledger.sqlite", isolation_level=None)) as ledger:
        ledger.execute("DROP VIEW settings")
        ledger.execute("DROP VIEW numbers")
        ledger.execute("UPDATE runs SET plan = json_remove(plan, '$.schedule')")
    opened = Opened(copied_study)
    assert list(opened.runs.schedule) == ["cosine"] * 6
    assert opened.numbers.equals(Opened(shared_study).numbers)


def test_a_study_in_a_folder_that_cannot_be_written_is_read(
    shared_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in shared_study.iterdir() if path.is_file()}
    monkeypatch.setattr("posenc.workbench.run.ledger.access", lambda path, mode: mode != os.W_OK)
    with Ledger(shared_study) as ledger:
        assert "immutable" in ledger._reading()
        assert len(ledger.runs()) == 6
    assert {path.name: path.read_bytes() for path in shared_study.iterdir() if path.is_file()} == before


def cells(path: Path) -> Iterator[str]:
    notebook: dict[str, Any] = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


@pytest.mark.slow
def test_the_notebook_of_the_guide_runs(
    shared_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study").symlink_to(shared_study)
    names: dict[str, Any] = {}
    for source in cells(ROOT / "docs" / "results.ipynb"):
        exec(compile(source, "results.ipynb", "exec"), names)
    assert len(names["opened"].runs) == 6
