"""A study whose disk is full or whose folder vanishes ends in a sentence, and nothing that was finished is lost."""

import resource
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.errors import StudyError
from posenc.workbench.run import trainer
from posenc.workbench.run.job import Failure, Job, ignore_progress, in_process
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Run
from posenc.workbench.run.training import TrainingJob
from posenc.workbench.study.comparison import Comparison
from support.studies import TINY, plan_of, python_text

STUDY = replace(TINY, encodings=("nope", "rotary", "alibi"), tasks=("needle",))


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """As on a disk that is full: what writes more to one file is told so by the system."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("every", [0.0, 1e9], ids=["state", "weights"])
def test_a_run_that_cannot_write_says_so_and_leaves_nothing_half_written(
    every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "STATE_EVERY", every)
    job = TrainingJob(plan=plan_of("nope", steps=2), folder=tmp_path)
    with (
        no_file_above(2**16),
        pytest.raises(StudyError, match=r"cannot be written to .*; free some space and run the same"),
    ):
        job.run(ignore_progress)
    assert [file.suffix for file in tmp_path.iterdir()] == []
    assert job.run(ignore_progress).cells


def test_a_study_without_room_for_weights_fails_run_by_run_and_goes_on_later(tmp_path: Path) -> None:
    text = python_text()
    with Ledger(tmp_path, write=True) as ledger:
        Comparison(replace(STUDY, encodings=("nope",)), text, ledger).run(in_process)
        with no_file_above(2**18):  # the ledger has room, weights have not
            outcome = Comparison(STUDY, text, ledger).run(in_process)
        assert [failure.plan.encoding for failure in outcome.failures] == ["rotary", "alibi"]
        assert all("free some space and run the same command" in failure.reason for failure in outcome.failures)
        assert [run.plan.encoding for run in ledger.runs()] == ["nope"]
        assert Comparison(STUDY, text, ledger).run(in_process).failures == ()
        assert Comparison(STUDY, text, ledger).missing == []


def test_a_folder_that_vanishes_ends_the_study(tmp_path: Path) -> None:
    folder = tmp_path / "study"

    def vanishing(jobs: Sequence[Job], done: object, report: object) -> None:
        def then(result: Run | Failure) -> None:
            done(result)  # type: ignore[operator]
            shutil.rmtree(folder, ignore_errors=True)

        in_process(jobs, then, report)  # type: ignore[arg-type]

    with Ledger(folder, write=True) as ledger, pytest.raises(StudyError, match="no longer exists"):
        Comparison(STUDY, python_text(), ledger).run(vanishing)
