"""The local launcher: jobs in their own processes die alone, go on from what they kept, and fail as themselves."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.launch.local import Local
from posenc.workbench.run import footprint, machine
from posenc.workbench.run.job import Requirements
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.study import Study, read_study
from posenc.workbench.tasks.text import Text
from support.launch_jobs import ASSERT, REASONS, Heard, counting, failing, seeing

MIG = [f"MIG-{number}" for number in range(8)]
NO_SHARE = "must be a whole number, or a share of a GPU between 0 and 1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def heard(folder: Path) -> Heard:
    """All jobs by one worker that is replaced each time, as starting processes is what costs."""
    closed = replace(counting(folder, "closed"), source=lambda: None)
    jobs = [
        counting(folder, "dies", fails="once"),
        counting(folder, "asserts", fails="raises poison"),
        counting(folder, "lives"),
        closed,
        *failing(folder),
        seeing(folder, folder, "sees"),
        counting(folder, "dies twice", fails="always"),
        counting(folder, "exits twice", fails="exits"),
    ]
    launcher, heard = Local(1, Requirements(cpus=2)), Heard()
    launcher.devices = [MIG[5]]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        launcher(jobs, heard.done, heard.report)
    return heard


def test_a_worker_that_dies_or_lost_its_accelerator_is_replaced_and_its_job_goes_on_from_what_it_kept(
    heard: Heard,
) -> None:
    assert heard.sums()["dies"] == (190, 15)
    assert heard.sums()["lives"] == (190, 0)
    assert heard.reasons()["asserts"] == f"RuntimeError: {ASSERT}"
    assert "killed twice; memory may have run out" in heard.reasons()["dies twice"]
    assert 'under `if __name__ == "__main__":`' in heard.reasons()["exits twice"]


def test_errors_arrive_as_themselves_and_end_no_other_job(heard: Heard) -> None:
    assert {name: reason for name, reason in heard.reasons().items() if name in REASONS} == REASONS
    assert "local object 'heard.<locals>.<lambda>'" in heard.reasons()["closed"]
    assert heard.losses[counting(Path(), "lives").plan.id] == list(range(20))


def test_a_job_has_its_threads_text_modules_and_accelerator_and_does_not_hear_ctrl_c(
    heard: Heard, folder: Path
) -> None:
    sees = json.loads((folder / f"{heard.found['sees'].plan.id}.seen").read_text())
    assert (sees["text"], sees["module"], sees["threads"], sees["devices"]) == (80, 7, 2, MIG[5])
    assert sees["deaf"]


@pytest.mark.parametrize(
    ("quota", "workers"), [("", 4), ("max 100000", 4), ("250000 100000", 3), ("50000 100000", 1)]
)
def test_as_many_workers_as_this_process_may_use_cores(
    quota: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5, 8, 13}, raising=False)
    monkeypatch.setattr(machine, "QUOTA", tmp_path / "cpu.max")
    machine.QUOTA.write_text(f"{quota}\n")
    assert len(Local().devices) == workers


@pytest.mark.parametrize(
    ("given", "here", "gpus", "devices"),
    [
        (None, 3, 1, ["0", "1", "2"]),
        (None, 5, 2, ["0,1", "2,3"]),
        ("4,5", 2, 1, ["4", "5"]),
        ("4, 5", 2, 0.5, ["4", "5", "4", "5"]),
        ("7,6,5,4", 4, 2, ["7,6", "5,4"]),
        ("GPU-8932f937,GPU-c6d4f1ef", 2, 1, ["GPU-8932f937", "GPU-c6d4f1ef"]),
        ("MIG-8932f937", 1, 1, ["MIG-8932f937"]),
        (",".join(MIG), 1, 1, MIG),  # CUDA shows a process the first alone, and each worker has its own
        (",".join(MIG), 1, 0.5, MIG * 2),
        ("3,1,-1,2", 2, 1, ["3", "1"]),  # CUDA sees none behind one that is not there
    ],
)
def test_workers_stay_on_the_accelerators_that_the_user_gave(
    given: str | None, here: int, gpus: float, devices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: here)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert Local(requirements=Requirements(gpus=gpus)).devices == devices
    with pytest.raises(StudyError, match=f"gpus=9, but the number of GPUs on this machine is {here}; lower"):
        Local(requirements=Requirements(gpus=9))


def test_the_study_made_for_gpus_starts_where_one_run_fits_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc.workbench.launch.local.cores", lambda: 64)
    monkeypatch.setattr(footprint, "free_memory", lambda device: 79 * 2**30)
    monkeypatch.setattr(footprint, "check_disk", lambda *_: None)
    drawn = torch.randint(50_000, (40_000,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    pieces = SimpleNamespace(name="", unit="token", vocabulary=50_000)
    text = Text("mine", "0" * 64, drawn[:20_000], drawn[20_000:], pieces)
    study = replace(read_study("small-gpt"), encodings=("nope",), seeds=18)

    def check(here: int, gpus: float, study: Study = study, **more: int) -> None:
        monkeypatch.setattr("torch.cuda.device_count", lambda: here)
        devices = Local(requirements=Requirements(gpus=gpus, **more)).devices
        with Ledger(tmp_path, write=True) as ledger:
            Comparison(study, text, ledger).check(devices)

    for here in (1, 8):
        check(here, 1)
        check(here, 0.25)
    for given, here in (("MIG-0", 1), (",".join(MIG), 1), ("GPU-0,GPU-1", 2), ("4,5", 2)):
        with monkeypatch.context() as visible:
            visible.setenv("CUDA_VISIBLE_DEVICES", given)
            check(here, 1)
    check(8, 0.2)  # its 18 runs are never more than three on one of eight devices
    with pytest.raises(StudyError, match=r"training 5 models at a time on a device needs about 8\d\.\d GiB of"):
        check(1, 0.2)
    with pytest.raises(StudyError, match="training 16 models at a time on a device"):
        check(1, 0, cpus=4)
    large = replace(study, width=3072, layers=48, heads=48, batch=4)
    with pytest.raises(StudyError, match="training 1 model at a time on a device"):
        check(8, 1, large)


@pytest.mark.parametrize(
    ("kind", "need", "message"),
    [
        *((Requirements, {"gpus": gpus}, NO_SHARE) for gpus in (-1, 1.5, float("nan"), float("inf"))),
        (Requirements, {"cpus": 0}, "cpus=0 must be at least 1"),
        (Local, {"workers": -1}, "workers=-1 must be at least 1"),
    ],
)
def test_needs_that_no_machine_can_meet_are_refused(kind: type, need: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        kind(**need)
