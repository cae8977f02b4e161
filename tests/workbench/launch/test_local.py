"""The local launcher: jobs in their own processes die alone, go on from what they kept, and fail as themselves."""

import sys
from pathlib import Path

import pytest

from posenc.errors import InvalidArgument, StudyError, UnknownName
from posenc.workbench.launch.job import Failure, Job, Needs
from posenc.workbench.launch.local import Local, slots
from posenc.workbench.launch.store import Store
from workbench.launch.work import REASONS, counting, failing, placed
from workbench.studies import Heard


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def heard(folder: Path) -> Heard:
    """All jobs at once, as starting processes is what costs."""
    jobs = [counting("dies", 20, dies_at=15), counting("lives", 10), *map(failing, ["death", *REASONS])]
    jobs += [Job("closed", "closed", lambda desk: None), placed(folder, "placed", Needs(cpus=2))]
    heard = Heard()
    Local(2)(jobs, Store.at(folder), heard)
    return heard


def test_a_worker_that_dies_is_replaced_and_its_job_goes_on_from_what_it_kept(heard: Heard, folder: Path) -> None:
    assert heard.found["dies"] == (190, 15)
    assert "died twice" in heard.found["death"].reason
    assert heard.losses["dies"][-5:] == [15, 16, 17, 18, 19]
    assert (folder / "dies").read_text() == "20 190"


def test_errors_arrive_as_themselves_and_end_no_other_job(heard: Heard) -> None:
    assert heard.found["lives"] == (45, 0)
    assert heard.losses["lives"] == list(range(10))
    assert {name: heard.found[name].reason for name in REASONS} == REASONS
    assert isinstance(heard.found["ours"].error, UnknownName)
    assert heard.found["stubborn"].error is None
    assert "in __call__" in heard.found["stubborn"].trace
    assert isinstance(heard.found["closed"], Failure)  # a lambda cannot be sent


def test_a_job_has_its_threads_files_and_modules(heard: Heard, folder: Path) -> None:
    seen = heard.found["placed"]
    assert (seen["read"], seen["module"], seen["threads"]) == ("read me", 7, 2)
    assert str(folder) not in sys.path


def test_accelerators_are_shared_out() -> None:
    assert slots(1, 3) == ["0", "1", "2"]
    assert slots(2, 5) == ["0,1", "2,3"]
    assert slots(0.5, 2) == ["0", "1", "0", "1"]
    with pytest.raises(
        StudyError, match="a run asks for gpus=4 and 2 are here; ask for fewer, or use --launcher ray"
    ):
        slots(4, 2)


@pytest.mark.parametrize("gpus", [-1, 1.5, float("nan"), float("inf")])
def test_needs_that_no_machine_can_meet_are_refused(gpus: float) -> None:
    with pytest.raises(InvalidArgument, match="must be a whole number, or a share of one between 0 and 1"):
        Needs(gpus=gpus)
    with pytest.raises(InvalidArgument, match="cpus=0 must be at least 1"):
        Needs(cpus=0)
    with pytest.raises(InvalidArgument, match="workers=-1 must be at least 1"):
        Local(-1)
