"""One run over several processes gives the numbers of one, and its state is read by any number of them."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.launch.choose import choose
from posenc.workbench.run import trainer
from posenc.workbench.run.checkpoint import forget
from posenc.workbench.run.devices import run_on_devices
from posenc.workbench.run.job import Report
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.run.ranks import WAYS, Ranks
from posenc.workbench.run.sharded import ShardedState
from posenc.workbench.run.trainer import Recipe
from posenc.workbench.run.training import TrainingJob, build, task_of
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.study import Study
from posenc.workbench.tasks import Source
from support.over_devices import BOUND, PLAN, gap, rank, trained
from support.studies import inline, numbers, python_text


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two processes have trained in every way and left their states."""
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(rank, (folder,), nprocs=2)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_state_written_by_two_is_read_by_one(left: Path, way: str) -> None:
    want, losses = trained("ddp", None)
    made = task_of(PLAN, python_text())
    model = build(replace(PLAN, seed=1), made)
    optimiser = trainer._optimiser(model, Recipe("", PLAN.steps, PLAN.learning_rate, PLAN))
    state = ShardedState(left / f"{way}.state", model, optimiser, torch.Generator())
    found = state.load()
    assert [folder.name for folder in left.glob(f"{way}.*.dcp")] == [f"{way}.4.dcp"]
    assert found.losses == pytest.approx(losses, rel=2**-23)
    assert gap(want, dict(model.state_dict())) <= BOUND
    assert all(len(optimiser.state[p]) for p in model.parameters() if p.requires_grad)


@pytest.mark.slow
def test_gradients_are_shared_out_once_a_step_and_nothing_else_is(left: Path) -> None:
    """Four steps of four batches each, whose processes meet once: to add up losses and to look at the clock."""
    for number in (0, 1):
        ddp, fsdp = (json.loads((left / f"{way}.{number}.calls").read_text()) for way in ("ddp", "fsdp"))
        assert ddp == {"c10d::allreduce_": 4 + 2}
        parts = 3  # two blocks, and what lies around them
        assert fsdp == {"c10d::_reduce_scatter_base_": 4 * parts, "c10d::allreduce_": 4 + 2}  # 4 norms to clip by


@dataclass(frozen=True)
class Uneven:
    """A shared job of which one process fails while the other waits for it."""

    plan: Plan
    folder: Path

    def run_rank(self, report: Report, ranks: Ranks) -> Run[Plan] | None:
        (self.folder / str(os.getpid())).touch()
        if not ranks.first:
            raise InvalidArgument("batch=3 is odd")
        time.sleep(600)
        return None


@pytest.mark.slow
def test_a_process_that_fails_ends_those_that_wait_for_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="batch=3 is odd"):
        run_on_devices(Uneven(replace(PLAN, devices=2), tmp_path), lambda progress: None)
    assert not [name.name for name in tmp_path.iterdir() if Path("/proc", name.name).exists()]


def test_a_state_without_its_last_file_is_none_and_one_that_has_ended_goes(tmp_path: Path) -> None:
    for steps in (3, 12):
        (tmp_path / f"run.{steps}.dcp").mkdir()
    (tmp_path / "run.3.dcp" / ".metadata").touch()
    forget(tmp_path / "run.state")
    assert [folder.name for folder in tmp_path.iterdir()] == ["run.12.dcp"]


def test_what_cannot_be_shared_out_is_refused() -> None:
    made = task_of(PLAN, python_text())
    with pytest.raises(InvalidArgument, match=r"parallel='context' cannot share .* as fox; choose ddp or fsdp"):
        Ranks("context", "cpu").wrapped(build(replace(PLAN, encoding="fox"), made))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_job_over_two_devices_leaves_one_run(tmp_path: Path, way: str) -> None:
    plan = replace(PLAN, devices=2, parallel=way)
    heard: list[object] = []
    run = TrainingJob(plan, Source(), tmp_path).run(heard.append)
    alone = TrainingJob(PLAN, Source(), tmp_path).run()
    assert run.cell(64, "loss").value == pytest.approx(alone.cell(64, "loss").value, rel=1e-9)  # type: ignore[union-attr]
    assert run.plan == plan
    assert len(heard) > 0
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"{p.id}.safetensors" for p in (plan, PLAN))


WORDS = ["compare", "--encodings", "rotary,alibi", "--tasks", "needle", "--lengths", "1,2", "--answers", "8"]
WORDS += ["--steps", "3", "--batch", "4", "--dtype", "float64", "--launcher", "torchrun"]


def typed(machines: int, folder: Path, devices: int) -> list[tuple[int, str, str]]:
    """The study over two processes under torchrun, of one machine or of as many agents that meet as machines do.

    Of each agent its status, what it printed, and its errors.
    """
    with socket.create_server(("localhost", 0)) as free:
        meet = f"localhost:{free.getsockname()[1]}"
    over = ["--rdzv-backend", "c10d", "--rdzv-endpoint", meet, "--local-addr", "localhost"]
    how = ["--nnodes", str(machines), "--nproc-per-node", str(2 // machines), *over]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        *how,
        "-m",
        "posenc",
        *WORDS,
        "--devices",
        str(devices),
    ]
    agents = [
        subprocess.Popen(
            [*command, "--output", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(machines)
    ]
    said = [agent.communicate() for agent in agents]
    return [(agent.returncode, *each) for agent, each in zip(agents, said, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("machines", [1, 2])
def test_torchrun_shares_a_study_out_and_leaves_the_numbers_of_devices(machines: int, tmp_path: Path) -> None:
    agents = typed(machines, tmp_path / "torchrun", 2)
    assert [status for status, _, _ in agents] == [0] * machines, agents
    assert sum(out.count("2 runs, 0 already done") for _, out, _ in agents) == 1
    same = {"lengths": (1, 2), "answers": 8, "steps": 3, "batch": 4, "dtype": "float64", "devices": 2}
    study = Study(encodings=("rotary", "alibi"), tasks=("needle",), **same)
    with Ledger(tmp_path / "here", write=True) as ledger:
        Comparison(study, python_text(), ledger).run(inline)
    assert numbers(tmp_path / "torchrun") == numbers(tmp_path / "here")


@pytest.mark.slow
def test_a_study_for_another_number_of_processes_is_refused_by_all_of_them(tmp_path: Path) -> None:
    ((status, _, errors),) = typed(1, tmp_path, 4)
    assert status != 0
    assert "devices=4 of needle/rotary/seed 0 must be the 2 processes of torchrun" in errors


def test_torchrun_is_asked_for_where_it_started_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(StudyError, match="for processes that torchrun started: torchrun --nproc-per-node 2"):
        choose("torchrun")


@pytest.mark.slow
def test_a_batch_that_does_not_part_is_one_sentence(tmp_path: Path) -> None:
    job = TrainingJob(replace(PLAN, devices=2, batch=3), Source(), tmp_path)
    with pytest.raises((InvalidArgument, StudyError), match="batch=3 must be a multiple of devices=2"):
        job.run()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted by Linux's names for them")
def test_a_process_that_has_left_the_group_has_none_of_its_threads() -> None:
    """They would end the process by a signal while Python takes itself down, now and then."""
    program = """
from pathlib import Path
from posenc.workbench.launch.torchrun import Torchrun
launch = Torchrun()
import torch._dynamo  # as optimisers do when they are first made
launch([], lambda run: None, lambda said: None)
print([name for task in Path("/proc/self/task").iterdir() if "gloo" in (name := (task / "comm").read_text())])
"""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    place = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **place}
    )
    assert run.stdout == "[]\n", run.stderr
