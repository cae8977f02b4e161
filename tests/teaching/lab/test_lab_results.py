"""The results room reads the study it was given, and says what is missing where nothing is there."""

import ast
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from posenc.errors import StudyError
from posenc.pictures.view import Lines
from posenc.teaching.lab import results
from posenc.teaching.lab.rooms import find
from posenc.teaching.lessons.example import EXAMPLE
from posenc.workbench.run.checkpoint import load_weights
from posenc.workbench.run.settings import TASKS as KNOWN
from support.blocks import strays
from support.lab import reply
from support.studies import runs_in
from support.views import only


def test_the_tasks_offered_are_those_there_are() -> None:
    (tasks,) = find("curves").controls
    assert set(tasks.settable) == set(KNOWN)


def test_curves_are_the_ledgers_numbers(study: Path) -> None:
    panel = only(results.curves("needle"), Lines)
    runs = {run.plan.encoding: run for run in runs_in(study) if run.plan.task == "needle"}
    for line in panel.lines:
        run = runs[line.encoding]
        cells = [run.cell(length, "accuracy") for length in run.plan.lengths]
        assert line.values.tolist() == pytest.approx([cell.value for cell in cells if cell])
        assert line.hollow  # two steps teach nobody


@pytest.mark.parametrize("example", [False, True])
def test_what_is_missing_is_said_of_the_example_without_a_path_of_this_machine(
    example: bool, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(results._shelf, "study", EXAMPLE if example else study)
    name = "the example study" if example else re.escape(f"{study}")
    missing = (
        r"has no run of the task 'recent' yet \(it has runs of .*ordering.*\); choose another task, "
        "or type: posenc compare --tasks recent"
    )
    with pytest.raises(StudyError, match=f"^.?{name}.? {missing}"):
        find("curves").answer({"task": "recent"})


@pytest.mark.parametrize(
    "asked",
    [
        *("curves", "curves?task=language", "curves?task=needle", "depths"),
        "trained-table?of_task=ordering",
    ],
)
def test_until_there_is_a_study_the_example_is_shown_and_says_so(
    asked: str, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _, query = asked.partition("?")
    assert b"the example that comes with posenc" not in reply(f"/api/{path}", query).body
    monkeypatch.setitem(results._shelf, "study", tmp_path / "nowhere")
    answered = reply(f"/api/{path}", query)
    assert answered.status == 200, answered.body
    assert b"the example that comes with posenc" in answered.body
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("folder", "tasks"), [(EXAMPLE, {"language", "ordering", "needle"}), (EXAMPLE / "twice", {"language"})]
)
def test_the_example_is_whole_and_small_and_reading_leaves_nothing_beside_it(folder: Path, tasks: set[str]) -> None:
    every = [path for path in EXAMPLE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in every) < 4_000_000
    inside = [
        path for path in every if folder in path.parents and (folder.name == "twice" or "twice" not in path.parts)
    ]
    files = {str(path.relative_to(folder)) for path in inside}
    runs = runs_in(folder)
    assert {run.plan.task for run in runs} == tasks
    assert {run.plan.encoding for run in runs} >= {
        "nope",
        "sinusoidal",
        "learned(past_end=clamp)",
        "rotary",
        "alibi",
    }
    models = [
        run.plan for run in runs if run.plan.task == "language" or run.plan.encoding == "learned(past_end=clamp)"
    ]
    weights = {f"{plan.id}.safetensors": plan for plan in models}
    assert files == {"ledger.sqlite", "weights.json", *(f"checkpoints/{name}" for name in weights)}
    record = json.loads((folder / "weights.json").read_text())
    assert record["command"] == "python tools/example.py"
    assert {name: file["run"] for name, file in record["files"].items()} == {n: p.name for n, p in weights.items()}
    for name, plan in weights.items():
        assert sha256((folder / "checkpoints" / name).read_bytes()).hexdigest() == record["files"][name]["sha256"]
        types = {value.dtype for value in load_weights(folder, plan).values() if value.is_floating_point()}
        assert types == {torch.float16}


@pytest.mark.parametrize("asked", ["curves", "depths"])
def test_the_python_of_a_result_lists_what_the_ledger_holds(
    asked: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(find(asked).answer({}).python, {})
    printed = capsys.readouterr().out
    assert [name in printed for name in ("nope", "rotary", "learned(past_end=clamp)")] == [True] * 3


def test_the_python_of_a_trained_table_prints_its_picture(study: Path) -> None:
    assert strays(results.table("language")) == []


def test_the_python_of_a_study_names_a_folder_of_any_name(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / 'it\'s "mine"'
    odd.symlink_to(study)
    monkeypatch.setitem(results._shelf, "study", odd)
    for python in (results.curves("needle").python, results.table("language").python):
        texts = [str(node.value) for node in ast.walk(ast.parse(python)) if isinstance(node, ast.Constant)]
        assert any(text.startswith(str(odd)) for text in texts), python
