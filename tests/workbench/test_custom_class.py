"""Somebody's own class, named by text: it trains in workers, its source is in its id, reading imports nothing."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import posenc
from posenc.commands.app import app
from posenc.encodings.foreign import modules, source_hash
from posenc.errors import InvalidArgument, StudyError, UnknownName
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.comparison import Comparison
from support.custom import was_imported, write
from support.studies import TINY, inline, python_text

SHORT = replace(TINY, tasks=("needle",), steps={"needle": 2})
SHAPE = {"width": 16, "heads": 4, "head_dim": 4, "num_positions": 24, "layers": 2}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The text of a class in a folder that Python finds."""
    monkeypatch.syspath_prepend(tmp_path)
    yield write(tmp_path)
    sys.modules.pop("log_distance", None)


@pytest.fixture
def typed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Result]]:
    """Types a command of posenc in this folder, which Python itself has not on its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda words: CliRunner().invoke(app, words.split(), env={"COLUMNS": "200"})
    sys.modules.pop("log_distance", None)


@pytest.mark.slow
def test_it_trains_in_a_worker_of_the_command_line_and_fails_its_own_run_there(
    tmp_path: Path, typed_here: Callable[[str], Result]
) -> None:
    name = write(tmp_path)
    works, fails = f"{name}(strength=2)", f"{name}(strength=13)"
    (tmp_path / "study.toml").write_text("answers = 8\n[steps]\nneedle = 2\n")
    asked = f"--encodings {fails},{works} --tasks needle --lengths 1,2 --config study.toml --workers 1"
    done = typed_here(f"compare {asked}")
    assert done.exit_code == 1, done.output
    assert f"needle/{fails}/seed 0  failed: ArithmeticError: thirteen" in done.output
    assert works in (tmp_path / "study" / "report.html").read_text()
    assert was_imported(tmp_path)
    with Ledger(tmp_path / "study") as ledger:
        assert [run.plan.encoding for run in ledger.runs()] == [works]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class Mine(:\n    pass\n", "SyntaxError: invalid syntax"),
        ("\nimport nowhere_at_all\n", "No module named 'nowhere_at_all', line 2 of"),
        ("import posenc\n\n\nclass Mine(posenc.Encoding):\n    pass\n", "abstract class Mine"),
    ],
)
def test_one_that_cannot_be_made_is_one_sentence_with_its_line(
    source: str, message: str, tmp_path: Path, typed_here: Callable[[str], Result]
) -> None:
    (tmp_path / "not_made.py").write_text(source)
    done = typed_here("compare --encodings not_made:Mine --tasks needle")
    sys.modules.pop("not_made", None)
    assert isinstance(done.exception, StudyError), done.output
    assert str(done.exception).startswith("encoding 'not_made:Mine' cannot be made (")
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)


def test_reading_a_study_with_it_never_imports_it(
    own: str, tmp_path: Path, typed_here: Callable[[str], Result]
) -> None:
    with Ledger(tmp_path / "study", write=True) as ledger:
        Comparison(replace(SHORT, encodings=(own,)), python_text(), ledger).run(inline)
    assert was_imported(tmp_path)
    sys.modules.pop("log_distance")
    sys.path.insert(0, str(tmp_path))
    listed, shown = typed_here("runs study"), typed_here("lab --get /api/curves?task=needle")
    assert own in listed.output
    assert shown.exit_code == 0
    assert "has no rotary run on language" in str(typed_here("extend study --to 2x").exception)
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
    (ours,) = replace(one, encodings=("nope",)).plans(text)
    assert ours.source == ""


def test_a_ledger_with_it_is_read_where_its_module_is_gone(own: str, tmp_path: Path) -> None:
    study = replace(SHORT, encodings=("nope", own))
    with Ledger(tmp_path / "study", write=True) as ledger:
        Comparison(study, python_text(), ledger).run(inline)
        assert Comparison(study, python_text(), ledger).missing == []
        assert {row.encoding for row in Comparison(study, python_text(), ledger).outcome().results[0].rows} == {
            "nope",
            own,
        }
    (tmp_path / "log_distance.py").unlink()
    with Ledger(tmp_path / "study") as ledger:
        assert {run.plan.encoding for run in ledger.runs()} == {"nope", own}


def test_what_its_constructor_raises_is_one_sentence_and_its_cause(own: str, tmp_path: Path) -> None:
    with (
        Ledger(tmp_path / "study", write=True) as ledger,
        pytest.raises(
            StudyError, match=r"cannot be made \(ValueError: strength=-1 is below 0.*, line \d+ of"
        ) as refused,
    ):
        Comparison(replace(SHORT, encodings=(f"{own}(strength=-1)",)), python_text(), ledger).run(inline)
    assert isinstance(refused.value.__cause__, ValueError)
