"""A study goes to an address and comes from it by content: killed on one machine it goes on on another."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import StudyError
from posenc.workbench.notebook import Opened
from posenc.workbench.run import trainer
from posenc.workbench.run.job import Progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.storage import RemoteStudy
from posenc.workbench.study.study import Study
from support.studies import TINY, inline, numbers, python_text

STUDY = replace(TINY, encodings=("nope",), tasks=("needle",))
LONGER = replace(STUDY, encodings=("nope", "alibi"), steps=6)
SERVED = all(map(importlib.util.find_spec, ("moto", "s3fs", "flask")))


@pytest.fixture
def memory() -> Iterator[str]:
    """An address in fsspec's memory, empty before and behind."""
    fsspec.filesystem("memory").store.clear()
    yield "memory://bucket/study"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address on a server of S3's protocol, a process of moto's."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    for name, value in (("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://localhost:{port}")
    fsspec.get_filesystem_class("s3").clear_instance_cache()  # they remember the last server
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            try:
                socket.create_connection(("localhost", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        yield "s3://bucket/study"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(
    params=[
        "memory",
        "folder",
        pytest.param("server", marks=pytest.mark.skipif(not SERVED, reason="pip install s3fs 'moto[server]'")),
    ]
)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return f"file://{tmp_path}/not/there/yet"
    found: str = request.getfixturevalue(request.param)
    return found


class KilledError(Exception):
    """What stops a study in the middle."""


def train(folder: Path, study: Study = STUDY, killed_at: int = 0) -> list[Progress]:
    """The study in this folder, killed at its so manyth step if at all; its reports."""
    reports: list[Progress] = []

    def report(progress: Progress) -> None:
        reports.append(progress)
        if killed_at and sum(len(each.losses) for each in reports) >= killed_at:
            raise KilledError

    with Ledger(folder, write=True) as ledger:
        Comparison(study, python_text(), ledger).run(inline, report=report)
    return reports


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder but those of SQLite, by name."""
    files = [file for file in folder.rglob("*") if file.is_file() and ".sqlite" not in file.name]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def test_a_study_killed_on_one_machine_goes_on_on_another(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REPORT_EVERY", "STATE_EVERY"):
        monkeypatch.setattr(trainer, name, 0.0)
    one, two = tmp_path / "one", tmp_path / "two"
    with pytest.raises(KilledError):
        train(one, LONGER, killed_at=9)
    assert RemoteStudy(address).push(one) == 3  # a run's weights, another's state, the ledger
    assert RemoteStudy(address).pull(two) == 1
    assert content(two) == content(one)
    reports = train(two, LONGER)
    assert len(reports[0].losses) in range(1, 6)  # of the second run alone, and mid-way
    train(tmp_path / "never", LONGER)
    assert numbers(two) == numbers(tmp_path / "never")
    assert RemoteStudy(address).push(two) == 2
    assert RemoteStudy(address).pull(tmp_path / "three") == 2
    assert content(tmp_path / "three") == content(two)  # without the state of a run that has ended


def test_what_lies_there_is_sent_and_brought_once(address: str, tmp_path: Path) -> None:
    train(tmp_path / "one")
    assert [RemoteStudy(address).push(tmp_path / "one") for _ in range(2)] == [2, 0]
    assert [RemoteStudy(address).pull(tmp_path / "two") for _ in range(2)] == [1, 0]
    assert numbers(tmp_path / "two") == numbers(tmp_path / "one")
    assert len(Opened(tmp_path / "two").runs) == 1


def test_machines_that_parted_come_together_and_nothing_is_deleted_or_replaced(
    address: str, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    train(one)
    train(two, replace(STUDY, encodings=("alibi",)))
    (one / "report.html").write_text("by one")
    (two / "report.html").write_text("by two")
    train(one, LONGER)
    with Ledger(one, write=True) as ledger:
        ledger.note(Progress("of one alone", 1, 0, (1.0, 2.0), 2, 0.5))
    for folder in (one, two):
        RemoteStudy(address).push(folder)
    assert [RemoteStudy(address).pull(folder) for folder in (one, two, tmp_path / "three")] == [1, 3, 4]
    for folder, page in ((one, "one"), (two, "two"), (tmp_path / "three", "two")):
        assert (folder / "report.html").read_text() == f"by {page}"
        with Ledger(folder) as ledger:
            assert len(ledger.ids()) == 4
            assert all(len(run.cells) and len(ledger.curve(run.plan.id).losses) for run in ledger.runs())
            assert ledger.curve("of one alone").losses == (1.0, 2.0)
            assert {file.stem for file in folder.glob("checkpoints/*")} == ledger.ids()
    assert train(tmp_path / "three", LONGER) == []


def test_a_folder_is_not_changed_under_a_command_that_writes_to_it(memory: str, tmp_path: Path) -> None:
    train(tmp_path)
    with Ledger(tmp_path, write=True):
        assert RemoteStudy(memory).push(tmp_path) == 2
        with pytest.raises(StudyError, match="another process is writing to"):
            RemoteStudy(memory).pull(tmp_path)


def test_a_push_that_was_killed_is_made_good_by_the_next(memory: str, tmp_path: Path) -> None:
    """A file that is cut short there is never taken for the whole one."""
    train(tmp_path / "one")
    RemoteStudy(memory).push(tmp_path / "one")
    files = fsspec.filesystem("memory")
    largest = max(files.ls("/bucket/study/objects"), key=lambda row: row["size"])
    files.pipe_file(largest["name"], files.cat_file(largest["name"])[:-1])
    with pytest.raises(StudyError, match=r"is cut short; push it again from where it lies"):
        RemoteStudy(memory).pull(tmp_path / "two")
    assert RemoteStudy(memory).push(tmp_path / "one") == 1
    assert RemoteStudy(memory).pull(tmp_path / "two") == 0  # its ledger had arrived
    assert content(tmp_path / "two") == content(tmp_path / "one")


def test_what_cannot_be_reached_is_a_sentence(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path)
    remote = RemoteStudy(memory)

    def refuses(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(remote._files, "open", refuses)
    with pytest.raises(StudyError, match=r"\(PermissionError: not yours\); see that it is there and yours"):
        remote.push(tmp_path)
    with pytest.raises(StudyError, match=r"no study at 'memory://none'; posenc study push memory://none"):
        RemoteStudy("memory://none").pull(tmp_path)
    for address in ("nowhere://bucket/study", "s3://", "memory://", "file:///"):
        with pytest.raises(StudyError, match=rf"address='{address}' cannot be used .* name one that fsspec serves"):
            RemoteStudy(address)


def test_studies_lie_in_folders_and_two_verbs_carry_them(memory: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    train(Path("study"))
    for words, answer in (
        (["push", memory], f"2 files sent to {memory}"),
        (["pull", memory, "other"], "1 run brought to other/"),
    ):
        result = CliRunner().invoke(app, ["study", *words], env={"COLUMNS": "200"})
        assert (result.exit_code, result.output.strip()) == (0, answer)
    for words in (
        ["compare", "--output", memory],
        ["runs", memory],
        ["lab", "--study", memory, "--get", "/api/curves"],
    ):
        error = CliRunner().invoke(app, words).exception
        assert "is an address; posenc study pull brings what lies there into a folder" in str(error)
    assert set(os.listdir()) == {"study", "other"}
