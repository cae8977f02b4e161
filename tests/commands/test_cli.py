"""The command line: one line and status 2 for what it refuses, a page that needs nothing else."""

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.workbench.run.job import Job, Launcher, Requirements
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.tasks.text import Source
from support.command_line import exit_status, refusal, said


def refused(status: int | str | None, out: str, err: str, message: str) -> None:
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_process_that_refuses_ends_with_status_2() -> None:
    words = [sys.executable, "-m", "posenc", "runs", "--what", "run"]
    done = subprocess.run(words, capture_output=True, text=True)
    refused(done.returncode, done.stdout, done.stderr, "unknown what 'run'; did you mean 'runs'?")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "--preset", "quik"), "did you mean 'quick'?"),
        (("compare", "--preset", ""), "unknown preset ''"),
        (("compare", "--encodings", "rotray"), "unknown encoding 'rotray'; did you mean 'rotary'?"),
        (("compare", "--lengths", "1,two"), "lengths='two' must be a number"),
        (("compare", "--lengths", "0.5"), "lengths=0.5 must be a number, 1 … 65,536"),
        (("compare", "--learning-rate", "ordering=x"), "learning_rate of ordering='x' must be a number"),
        (("compare", "--tokens", "100000", "--steps", "5"), "steps and tokens of language are both given"),
        (("compare", "--text", "/nowhere.txt"), "cannot be read: No such file or directory"),
        (
            ("compare", "--part", "17/16"),
            "part='17/16' must be the part's number and the number of parts",
        ),
        (
            ("compare", "--text", "/"),
            "is inside '/', the folder of the text, so the results would become part of the text",
        ),
        (("compare", "--part", "0/2"), "part='0/2' must be"),
        (("compare", "--part", "3"), "part='3' must be"),
        (("compare", "--launcher", "rya"), "did you mean 'ray'?"),
        (("compare", "--launcher", "in-process", "--workers", "2"), "workers=2 applies only to --launcher local"),
        (("extend", "/nowhere", "--device", "nothing"), "device='nothing' cannot be used here"),
        (("compare", "--launcher", "in-process", "--device", "nothing"), "device='nothing' cannot be used here"),
        (("compare", "--launcher", "in-process", "--device", "meta"), "device='meta' cannot be used here"),
        (
            ("compare", "--steps", "ordering=3,needle=2,ordering=5"),
            "names ordering twice; list several values as in ordering=1,2",
        ),
        (("extend", "/nowhere", "--finetune", "-1"), "finetune=-1 must be at least 0"),
        (("extend", "/nowhere"), "no model at '/nowhere'; pass a study of posenc compare, a Hugging Face folder"),
        (("runs", "--what", "steps"), "what='steps' applies only to --csv and --json; add --csv steps.csv"),
        (("runs", "--csv", "a.csv", "--json"), "csv='a.csv' and json=True cannot be combined"),
        (("lab", "--study", "/nowhere"), "no ledger in '/nowhere'; create it with"),
        (("runs", "/nowhere"), "no ledger in '/nowhere'; create it with: posenc compare --output /nowhere"),
        (("show", "heatmap", "--output", "{file}/heatmap.svg"), "; pass another file or folder"),
        (("show", "lesson", "--output", "{file}/lesson.png"), "; pass another file or folder"),
        (("lab", "--export", "{file}"), "; pass another file or folder"),
    ],
)
def test_what_is_refused_is_one_line_and_status_2(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    extra = ("--output", str(tmp_path)) if words[0] == "compare" else ()
    status = exit_status(*(word.format(file=tmp_path / "file") for word in words), *extra)
    refused(status, *capsys.readouterr(), message)


def test_a_current_folder_that_vanishes_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (gone := tmp_path / "gone").mkdir()
    (gone / "text.txt").write_text("words of a text, and more of them. " * 200)
    monkeypatch.chdir(gone)

    def then(text: Any, say: object) -> Any:
        read = load(text)
        shutil.rmtree(gone)
        return read

    load = Source.load
    monkeypatch.setattr(Source, "load", then)
    words = ["--encodings", "nope", "--tasks", "language", "--steps", "1", "--blocks", "2", "--lengths", "1"]
    words += ["--text", "text.txt", "--launcher", "in-process", "--output", str(tmp_path / "study")]
    assert exit_status("compare", *words) == 2
    message = "error: the current folder no longer exists; change to another folder and run the same command again"
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs",), "stopped"),
        (("compare", "--tasks", "needle", "--output"), "stopped; run the same command to resume"),
    ],
)
def test_a_command_that_is_stopped_says_how_it_goes_on(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped(*_: object, write: bool = False) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "__init__", stopped)
    assert exit_status(*words, tmp_path) == 130
    assert capsys.readouterr().err == f"{said}\n"


class AskedError(Exception):
    """Raised in place of training."""


def test_a_cluster_is_asked_for_the_gpus_that_this_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Requirements | None]] = []

    def chosen(name: str, workers: int | None, requirements: Requirements) -> Launcher:
        asked.append((name, requirements))

        def carry_out(jobs: Sequence[Job], *_: object) -> None:
            assert all(job.folder == (tmp_path / "study" / "checkpoints").resolve() for job in jobs)
            assert len({job.plan.id for job in jobs}) == 15
            raise AskedError

        return carry_out

    monkeypatch.setattr("posenc.workbench.launch.launcher.choose", chosen)
    monkeypatch.chdir(tmp_path)
    words = ["compare", "--device", "cuda", "--launcher", "ray", "--cpus", "4"]
    for more in ([], ["--gpus", "0.5"]):
        assert isinstance(CliRunner().invoke(app, [*words, *more]).exception, AskedError)
    assert asked == [("ray", Requirements(4, 1)), ("ray", Requirements(4, 0.5))]


def test_the_page_is_whole_and_asks_for_nothing_else(shared_study: Path) -> None:
    page = (shared_study / "report.html").read_text()
    assert set(re.findall(r'<figure class="scene" id="figure-([^"]*)"', page)) == {
        *("needle", "needle-depth", "needle-steps", "language", "language-positions", "language-steps"),
    }
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    for words in ("posenc compare --config &lt;tiny&gt;", "not converged", "RMSNorm first, SwiGLU"):
        assert words in page
    assert not (shared_study / "figures").exists()


def test_runs_lists(shared_study: Path) -> None:
    listed = CliRunner().invoke(app, ["runs", str(shared_study)]).stdout
    assert listed.count("needle") == 3
    assert max(map(len, listed.splitlines())) <= 80
    assert "none of 6 runs satisfies seed=9" in said("runs", shared_study, "--where", "seed=9")


NO_SQL = "--where and --sort must be SQL"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("runs", "{}", "--where", "\udcff=1"), NO_SQL),  # as a terminal passes bytes that are not UTF-8
        (("runs", "{}", "--sort", "\udcff"), NO_SQL),
        (("runs", "{}", "--where", "1) OR ("), NO_SQL),
        (("extend", "{}", "--finetune", "0", "--dtype", "bfloat16"), "dtype='bfloat16' applies only to a Hugging"),
        (("extend", "{}", "--output", "{}"), "is the folder of a study, whose page would be"),
        (("runs", "{}", "--csv", "{}/none/x.csv"), "csv='{}/none/x.csv' cannot be written: No such file"),
        (("runs", "{}", "--csv", "{}/more/../ledger.sqlite"), "is the ledger of the study; choose another file"),
    ],
)
def test_what_a_study_refuses_leaves_it_as_it_was(words: tuple[str, ...], message: str, copied_study: Path) -> None:
    before = {file: file.read_bytes() for file in copied_study.iterdir() if file.is_file()}
    assert message.format(copied_study) in refusal(*(word.format(copied_study) for word in words))
    assert {file: file.read_bytes() for file in copied_study.iterdir() if file.is_file()} == before


def test_the_rows_of_csv_are_those_of_json(shared_study: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.csv"
    for what in ("numbers", "runs", "steps"):
        words = ["runs", str(shared_study), "--sort", "encoding", "--what", what]
        rows = json.loads(said(*words, "--json"))
        said(*words, "--csv", target)
        with target.open(newline="") as file:
            written_rows = list(csv.DictReader(file))
        assert len(rows) == len(written_rows) > 0
        for row, other in zip(rows, written_rows, strict=True):
            assert {name: str(value) for name, value in row.items() if value is not None} == {
                name: value for name, value in other.items() if value not in ("", "nan")
            } | {name: "" for name, value in row.items() if value == ""}


def test_the_tables_of_the_page_lie_beside_it(shared_study: Path) -> None:
    tables, page = (
        json.loads((shared_study / "tables.json").read_text()),
        (shared_study / "report.html").read_text(),
    )
    rows = [row for row in tables["results"] if row["task"] == "needle"]
    assert rows == sorted(rows, key=lambda row: -row["values"]["128"]["mean"])
    for row in rows:
        assert (row["at_best_values"], row["seeds"]) == (True, 1)
        assert row["verdict"] in page
        for length in ("64", "128"):
            value = row["values"][length]
            assert value["low"] <= value["mean"] <= value["high"]
            assert f"{value['mean']:.3f}" in page
    for row in tables["training"]["needle"]:
        assert f"{row['loss']:.3f}" in page
        assert f"{row['validation']:.3f}" in page
