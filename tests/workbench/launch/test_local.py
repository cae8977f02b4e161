"""The local launcher: jobs in their own processes die alone, go on from what they kept, and fail as themselves."""

import json
import sys
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.experiments.job import Progress
from posenc.workbench.launch.local import Local, shares
from posenc.workbench.launch.needs import Needs
from workbench.launch.work import REASONS, Heard, counting, failing, seeing


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def heard(folder: Path) -> Heard:
    """All jobs by one worker that is replaced twice, as starting processes is what costs."""
    closed = replace(counting(folder, "closed"), source=lambda: None)
    jobs = [counting(folder, "dies", fails="once"), counting(folder, "lives"), closed, *failing(folder)]
    jobs += [seeing(folder, folder, "sees"), counting(folder, "dies twice", fails="always")]
    heard = Heard()
    Local(1, Needs(cpus=2))(jobs, heard.done, heard.report)
    return heard


def test_a_worker_that_dies_is_replaced_and_its_job_goes_on_from_what_it_kept(heard: Heard) -> None:
    assert heard.sums()["dies"] == (190, 15)
    assert heard.sums()["lives"] == (190, 0)
    assert "died twice" in heard.reasons()["dies twice"]


def test_errors_arrive_as_themselves_and_end_no_other_job(heard: Heard) -> None:
    assert {name: reason for name, reason in heard.reasons().items() if name in REASONS} == REASONS
    assert "local object 'heard.<locals>.<lambda>'" in heard.reasons()["closed"]
    assert heard.losses[counting(Path(), "lives").plan.id] == list(range(20))


def test_a_job_has_its_threads_text_and_modules(heard: Heard, folder: Path) -> None:
    sees = json.loads((folder / f"{heard.found['sees'].plan.id}.seen").read_text())
    assert (sees["text"], sees["module"], sees["threads"]) == (80, 7, 2)
    assert str(folder) not in sys.path


def test_a_worker_does_not_hear_ctrl_c_and_says_nothing_of_it(heard: Heard, folder: Path) -> None:
    assert json.loads((folder / f"{heard.found['sees'].plan.id}.seen").read_text())["deaf"]


@pytest.mark.slow
def test_workers_end_where_a_study_is_broken_off(tmp_path: Path) -> None:
    def stopped(progress: Progress) -> None:
        raise KeyboardInterrupt

    others, job = set(active_children()), counting(tmp_path, "waits")
    job = replace(job, plan=replace(job.plan, steps=50, waits=str(tmp_path / "never")))
    with pytest.raises(KeyboardInterrupt):
        Local(1)([job], Heard().done, stopped)
    for worker in set(active_children()) - others:
        worker.join(60)
        assert worker.exitcode is not None


def test_accelerators_are_shared_out() -> None:
    assert shares(1, 3) == ["0", "1", "2"]
    assert shares(2, 5) == ["0,1", "2,3"]
    assert shares(0.5, 2) == ["0", "1", "0", "1"]
    with pytest.raises(
        StudyError, match="a run asks for gpus=4 and 2 are here; ask for fewer, or use --launcher ray"
    ):
        shares(4, 2)


@pytest.mark.parametrize("gpus", [-1, 1.5, float("nan"), float("inf")])
def test_needs_that_no_machine_can_meet_are_refused(gpus: float) -> None:
    with pytest.raises(InvalidArgument, match="must be a whole number, or a share of one between 0 and 1"):
        Needs(gpus=gpus)
    with pytest.raises(InvalidArgument, match="cpus=0 must be at least 1"):
        Needs(cpus=0)
    with pytest.raises(InvalidArgument, match="workers=-1 must be at least 1"):
        Local(-1)
