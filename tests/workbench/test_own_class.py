"""Somebody's own class, named by text: it trains in workers, its source is in its id, reading imports nothing."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import posenc
from posenc.encodings.foreign import modules, source_hash
from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.experiments.compare import compare, gather, missing
from posenc.workbench.experiments.job import Failure, unheard
from posenc.workbench.experiments.ledger import Ledger
from posenc.workbench.experiments.training import TrainingJob
from posenc.workbench.launch.local import Local
from posenc.workbench.tasks import Source
from workbench.own import was_imported, write
from workbench.studies import TINY, inline, python_text

SHORT = replace(TINY, tasks=("needle",), steps={"needle": 2})
SHAPE = {"width": 16, "heads": 4, "head_dim": 4, "num_positions": 24, "layers": 2}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The text of a class in a folder that Python finds."""
    monkeypatch.syspath_prepend(tmp_path)
    yield write(tmp_path)
    sys.modules.pop("log_distance", None)


def command(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command of posenc typed in this folder, which Python itself has not on its path."""
    line = [sys.executable, "-P", "-m", "posenc", *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True)


READERS = """
import sys
from posenc.workbench.cli import main
for words in ("runs study", "extend study --to 2x", "lab --get /api/results?task=needle"):
    sys.argv = ["posenc", *words.split()]
    try:
        main()
    except SystemExit:
        pass
print("all three ended")
"""


def test_it_trains_in_workers_of_the_command_line_and_reading_never_imports_it(tmp_path: Path) -> None:
    text = f"{write(tmp_path)}(strength=2)"
    (tmp_path / "study.toml").write_text("answers = 8\n[steps]\nneedle = 2\n")
    asked = ("--encodings", f"nope,{text}", "--tasks", "needle", "--lengths", "1,2", "--config", "study.toml")
    done = command(tmp_path, "compare", *asked, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert text in (tmp_path / "study" / "report.html").read_text()
    assert was_imported(tmp_path)
    read = subprocess.run([sys.executable, "-P", "-c", READERS], cwd=tmp_path, capture_output=True, text=True)
    assert "log_distance" in read.stdout
    assert "has no rotary run on language" in read.stderr
    assert read.stdout.endswith("all three ended\n"), read.stderr
    assert not was_imported(tmp_path)


def test_it_is_built_with_settings_and_in_parts(own: str) -> None:
    made = posenc.encoding(f"layers({own}(strength=0.5)*2 + nope)", **SHAPE)
    assert [part.name for part in made.children().__next__()] == ["log-distance", "nope"]  # type: ignore[attr-defined]
    with pytest.raises(UnknownName, match="unknown setting of log_distance:LogDistance 'strenght'"):
        posenc.encoding(f"{own}(strenght=2)", **SHAPE)
    with pytest.raises(InvalidArgument, match="has no 'Missing'; write my_module:MyEncoding"):
        posenc.encoding("log_distance:Missing", **SHAPE)
    with pytest.raises(InvalidArgument, match=r"derive its class from posenc\.Encoding"):
        posenc.encoding("log_distance:Path", **SHAPE)


def test_its_source_is_in_the_id_and_is_hashed_without_importing(own: str, tmp_path: Path) -> None:
    text = python_text()
    one = replace(SHORT, encodings=(own,))
    (before,) = one.plans(text)
    assert not was_imported(tmp_path)
    with (tmp_path / "log_distance.py").open("a") as file:
        file.write("import beside\n")
    (tmp_path / "beside.py").write_text("A = 1\n")
    (changed,) = one.plans(text)
    (tmp_path / "beside.py").write_text("A = 2\n")
    (beside,) = one.plans(text)
    assert len({before.id, changed.id, beside.id}) == 3
    assert before.settings == changed.settings == own
    package = tmp_path / "pack"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").touch()
    first = source_hash(["pack.deep:Mine"])
    (package / "deep" / "inner.py").write_text("raise SystemExit\n")
    assert source_hash(["pack.deep:Mine"]) != first
    files = (package, tmp_path / "log_distance.py", tmp_path / "beside.py")
    assert modules(["pack.deep:Mine", own]) == files
    assert source_hash([]) == ""


def test_a_ledger_with_it_is_read_where_its_module_is_gone(own: str, tmp_path: Path) -> None:
    study = replace(SHORT, encodings=("nope", own))
    with Ledger(tmp_path / "study", write=True) as ledger:
        compare(study, python_text(), ledger, inline)
        assert missing(study, python_text(), ledger) == []
        assert {row.encoding for row in gather(study, python_text(), ledger)[0].rows} == {"nope", own}
    (tmp_path / "log_distance.py").unlink()
    with Ledger(tmp_path / "study") as ledger:
        assert {run.plan.encoding for run in ledger.runs()} == {"nope", own}


def test_what_its_constructor_raises_arrives_as_itself(own: str, tmp_path: Path) -> None:
    with (
        Ledger(tmp_path / "study", write=True) as ledger,
        pytest.raises(ValueError, match="strength=-1 is below 0"),
    ):
        compare(replace(SHORT, encodings=(f"{own}(strength=-1)",)), python_text(), ledger, inline)


def test_what_it_raises_in_a_worker_fails_its_own_run_and_no_other(own: str, tmp_path: Path) -> None:
    results: list[object] = []
    plans = replace(SHORT, encodings=(f"{own}(strength=13)", "nope")).plans(python_text())
    jobs = [TrainingJob(plan, Source(), tmp_path, (tmp_path / "log_distance.py",)) for plan in plans]
    Local(1)(jobs, results.append, unheard)
    (failure,) = (result for result in results if isinstance(result, Failure))
    assert failure.reason == "ArithmeticError: thirteen"
    assert failure.plan.encoding == f"{own}(strength=13)"
    assert len(results) == 2
