"""A study behind an address: killed on one machine it goes on on another; what cannot be reached is a sentence."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.notebook import Opened
from posenc.workbench.run import trainer
from posenc.workbench.run.job import Progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study import storage as module
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.storage import RemoteStudy, study_folder, with_ledger
from posenc.workbench.study.study import Study
from support.studies import TINY, inline, numbers, python_text

STUDY = replace(TINY, encodings=("nope",), tasks=("needle",))
LONGER = replace(STUDY, encodings=("nope", "alibi"), steps=6)
THERE = "memory://bucket/study"

Machine = Callable[[str], RemoteStudy]


@pytest.fixture
def files() -> Iterator[Any]:
    """The memory file system, empty before and behind."""
    made = fsspec.filesystem("memory")
    made.store.clear()
    yield made
    made.store.clear()


@pytest.fixture
def machine(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The place as a machine of this name has it."""

    def made(name: str) -> RemoteStudy:
        monkeypatch.setenv("POSENC_CACHE", str(tmp_path / name))
        return RemoteStudy(THERE)

    return made


class KilledError(Exception):
    """What stops a study in the middle."""


def carry_out(where: RemoteStudy, study: Study = STUDY, killed_at: int = 0) -> list[Progress]:
    """The study there, killed at its so manyth step if at all; what was said."""
    said: list[Progress] = []
    hindered: list[str] = []

    def heard(progress: Progress) -> None:
        said.append(progress)
        where.push_when_due(hindered.append)
        if killed_at and sum(len(each.losses) for each in said) >= killed_at:
            raise KilledError

    where.fetch()
    with Ledger(where.path, write=True) as ledger:
        Comparison(study, python_text(), ledger).run(inline, report=heard)
    where.push()
    assert hindered == []
    return said


def test_a_study_killed_on_one_machine_goes_on_on_another(
    machine: Machine, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for of, name in ((module, "EVERY"), (trainer, "REPORT_EVERY"), (trainer, "STATE_EVERY")):
        monkeypatch.setattr(of, name, 0.0)
    with pytest.raises(KilledError):
        carry_out(machine("one"), LONGER, killed_at=9)
    second = machine("two")
    said = carry_out(second, LONGER)
    assert len(said[0].losses) in range(1, 6)  # of the second run alone, and mid-way
    with Ledger(tmp_path / "never", write=True) as ledger:
        Comparison(LONGER, python_text(), ledger).run(inline)
    assert numbers(second.path) == numbers(tmp_path / "never")
    kept = {Path(name).relative_to("/bucket/study").as_posix() for name in files.find("/bucket/study")}
    weights = {f"checkpoints/{plan.id}.safetensors" for plan in LONGER.plans(python_text())}
    assert kept == {"ledger.sqlite", "revision", *weights}


def test_what_lies_there_is_opened_and_what_does_not_is_a_sentence(machine: Machine) -> None:
    carry_out(machine("one"))
    machine("reader")
    opened = Opened(THERE)
    assert len(opened.runs) == 1
    assert f"1 run in '{THERE}'" in repr(opened)
    with pytest.raises(StudyError, match=r"no study at 'memory://none'; posenc compare --output memory://none"):
        with_ledger("memory://none")


def test_two_machines_do_not_write_over_each_other(machine: Machine) -> None:
    first, second = machine("one"), machine("two")
    carry_out(first)
    second.fetch()
    first.push()
    with pytest.raises(StudyError, match=r"is no longer what this command left there: let the other one end"):
        second.push()


@pytest.fixture
def parted(machine: Machine) -> tuple[RemoteStudy, set[str]]:
    """A machine with runs that it could not send, as another took the study on; and the ids of all runs."""
    first = machine("one")
    carry_out(first)
    second = machine("two")
    carry_out(second, replace(STUDY, encodings=("alibi",)))
    with Ledger(first.path, write=True) as ledger:
        Comparison(LONGER, python_text(), ledger).run(inline)
        ledger.note(Progress("of first alone", 1, 0, (1.0, 2.0), 2, 0.5))
        every = ledger.ids()
    with Ledger(second.path) as ledger:
        every |= ledger.ids()
    with pytest.raises(StudyError, match="let the other one end that writes to it and type this one again"):
        first.push()
    return RemoteStudy(THERE), every


def test_what_was_not_sent_is_never_deleted_and_comes_together_with_what_others_sent(
    parted: tuple[RemoteStudy, set[str]], machine: Machine, files: Any, tmp_path: Path
) -> None:
    _, every = parted
    assert len(every) == 4
    again = machine("one")
    for _ in range(2):
        again.fetch()
        with Ledger(again.path) as ledger:
            assert ledger.ids() == every
            assert all(len(run.cells) and len(ledger.curve(run.plan.id).losses) for run in ledger.runs())
            assert ledger.curve("of first alone").losses == (1.0, 2.0)
        assert {file.stem for file in again.path.glob("checkpoints/*")} == every
    again.push()
    other = machine("three")
    other.fetch()
    assert numbers(other.path) == numbers(again.path)
    assert carry_out(other, LONGER) == []


def test_of_a_run_that_both_went_on_with_each_machine_keeps_its_own_losses_until_one_has_ended(
    machine: Machine,
) -> None:
    first = machine("one")
    carry_out(first)
    plan = LONGER.plans(python_text())[0]
    with Ledger(first.path, write=True) as ledger:
        ledger.note(Progress(plan.id, 1, 0, (1.0, 2.0), 2, 0.5))
        ledger.note(Progress(plan.id, 1, 2, (3.0,), 1, 0.5))
    carry_out(machine("two"), LONGER)
    with pytest.raises(StudyError):
        first.push()
    first.fetch()
    with Ledger(first.path) as ledger:
        assert len(ledger.curve(plan.id).losses) == plan.steps


def test_what_others_let_go_of_goes_here_too_unless_it_was_not_sent(machine: Machine, files: Any) -> None:
    first = machine("one")
    carry_out(first)
    for name in ("sent", "changed"):
        (first.path / name).write_text("by the first")
    first.push()
    second = machine("two")
    second.fetch()
    for name in ("sent", "changed"):
        (second.path / name).unlink()
    (second.path / "new").write_text("by the second")
    second.push()
    (first.path / "changed").write_text("again, and not sent")
    first.fetch()
    assert [(first.path / name).exists() for name in ("sent", "changed", "new")] == [False, True, True]


def test_a_folder_is_not_taken_from_under_a_command_that_writes_to_it(
    parted: tuple[RemoteStudy, set[str]], machine: Machine
) -> None:
    again = machine("one")
    with (
        Ledger(again.path, write=True) as ledger,
        pytest.raises(StudyError, match="another process is writing to"),
    ):
        again.fetch()
    with Ledger(again.path) as ledger:
        assert len(ledger.ids()) == 3


def test_a_service_with_folders_has_them_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for machine in ("one", "two"):
        monkeypatch.setenv("POSENC_CACHE", str(tmp_path / machine))
        said.append(carry_out(RemoteStudy(f"file://{tmp_path}/not/there/yet")))
    assert (len(said[0]) > 0, said[1]) == (True, [])


def test_what_could_not_be_brought_there_goes_later_and_what_was_lost_there_goes_back(
    machine: Machine, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machine("one")

    def refuses(*_: object) -> None:
        raise PermissionError("not yours")

    with monkeypatch.context() as patch:
        patch.setattr(one._files, "put_file", refuses)
        with pytest.raises(StudyError, match=r"\(PermissionError: not yours\); see that .* lies in '.*/study'"):
            carry_out(one)
    assert files.find("/bucket") == []
    carry_out(machine("one"))
    before = set(files.find("/bucket"))
    files.rm("/bucket", recursive=True)
    assert carry_out(machine("one")) == []
    assert set(files.find("/bucket")) == before
    shutil.rmtree(one.path.parent)
    assert carry_out(machine("one")) == []


def test_a_study_there_is_extended_and_what_was_scored_goes_beside_it(machine: Machine, files: Any) -> None:
    carry_out(machine("one"), replace(STUDY, encodings=("rotary",), tasks=("language",)))
    words = ["extend", THERE, "--to", "2x", "--documents", "1", "--methods", "yarn", "--finetune", "0"]
    for name in ("two", "three"):
        machine(name)
        result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        assert result.exit_code == 0, result.output
        assert (
            f"the small model of {THERE}, trained to 128, on to 256; writing to {THERE}/extension/" in result.output
        )
    assert files.exists("/bucket/study/extension/report.html")
    none = CliRunner().invoke(app, ["extend", "memory://bucket/none"]).exception
    assert "no study at 'memory://bucket/none'; posenc compare --output memory://bucket/none starts" in str(none)


@pytest.mark.parametrize("address", ["nowhere://bucket/study", "s3://"])
def test_an_address_that_nothing_serves_is_refused(address: str) -> None:
    with pytest.raises(StudyError, match=rf"{address}.*name a folder, or an address that fsspec serves here"):
        study_folder(address)


def test_a_study_lies_somewhere() -> None:
    with pytest.raises(
        InvalidArgument, match="output='' must be a folder, or an address such as s3://bucket/study"
    ):
        study_folder("")


@pytest.mark.slow
def test_a_study_is_typed_with_an_address(machine: Machine, files: Any) -> None:
    machine("one")
    words = ["compare", "--tasks", "needle", "--encodings", "nope", "--steps", "3", "--launcher", "in-process"]
    for done in (0, 1):
        result = CliRunner().invoke(app, [*words, "--output", THERE])
        assert result.exit_code == 0, result.output
        assert f"1 run, {done} already done; writing to {THERE}/" in result.output
        assert f"page    {THERE}/report.html" in result.output
        machine("two")
    assert files.exists("/bucket/study/report.html")
    assert "needle" in CliRunner().invoke(app, ["runs", THERE]).output
