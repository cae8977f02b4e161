"""The Ray launcher on a real cluster of two machines' processes that share no folder; one machine is killed."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import StudyError, UnknownName
from posenc.workbench.experiments.compare import compare
from posenc.workbench.experiments.ledger import Ledger
from posenc.workbench.launch.job import Job, Needs
from posenc.workbench.launch.ray import QUIET, Ray
from posenc.workbench.launch.store import Store
from workbench.launch.work import REASONS, counting, failing, placed
from workbench.studies import TINY, Heard, inline, numbers, python_text

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")

ROOT = Path(__file__).parents[3]
MACHINE = {"num_cpus": 1, "num_gpus": 2, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head of one core, and its driver; other machines come and go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT / 'tests'}")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        for name, value in QUIET.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={**MACHINE, "include_dashboard": False})
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        sys.modules["ray"].shutdown()
        made.shutdown()


@dataclass
class Killing(Heard):
    """Ends a machine as soon as both jobs have done some steps."""

    cluster: Any = None
    machine: Any = None

    def progress(self, job: Job, steps: int, losses: Sequence[float]) -> None:
        super().progress(job, steps, losses)
        if self.machine is not None and sum(n >= 5 for n in self.steps.values()) == 2:
            machine, self.machine = self.machine, None
            self.cluster.remove_node(machine, allow_graceful=False)


def test_a_machine_killed_in_the_middle_loses_nothing(cluster: Any, capfd: pytest.CaptureFixture[str]) -> None:
    heard = Killing(cluster=cluster, machine=cluster.add_node(**MACHINE))
    store = Store.at("memory://killed")  # which is in this process alone
    Ray()([counting(name, 30, pause=0.05) for name in "ab"], store, heard)
    assert heard.machine is None
    assert {total for total, _ in heard.found.values()} == {sum(range(30))}
    assert sorted(first > 0 for _, first in heard.found.values()) == [False, True]
    assert all(store.read(name) == b"30 435" for name in "ab")
    assert all(set(losses) == set(range(30)) for losses in heard.losses.values())
    said = capfd.readouterr()
    assert "state-dump" not in said.out + said.err


@pytest.mark.slow
def test_jobs_have_their_gpus_files_and_modules_and_fail_as_themselves(cluster: Any, tmp_path: Path) -> None:
    heard = Heard()
    jobs = [placed(tmp_path, "two", Needs(gpus=2)), placed(tmp_path, "half", Needs(gpus=0.5))]
    Ray()([*jobs, *map(failing, REASONS)], Store.at(tmp_path), heard)
    assert {(found["read"], found["module"]) for found in map(heard.found.get, ("two", "half")) if found} == {
        ("read me", 7)
    }
    assert heard.found["two"]["devices"] == "0,1"
    assert heard.found["half"]["devices"] in ("0", "1")
    assert {name: heard.found[name].reason for name in REASONS} == REASONS
    assert isinstance(heard.found["ours"].error, UnknownName)


def test_a_study_has_the_numbers_that_it_has_here(cluster: Any, tmp_path: Path) -> None:
    study = replace(TINY, encodings=("rotary",), tasks=("needle",))
    for name, launcher in (("ray", Ray()), ("here", inline)):
        with Ledger(tmp_path / name, write=True) as ledger:
            assert compare(study, python_text(), ledger, launcher).failures == ()
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "here")
    assert (tmp_path / "ray" / "checkpoints").exists()


@pytest.mark.slow
def test_what_no_machine_has_and_other_versions_are_refused(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"asks for cpus=1 and gpus=3, .* \(at most 1 CPUs, 2 GPUs\); ask for less"
    ):
        Ray()([counting("a", 1, needs=Needs(gpus=3))], Store.at(tmp_path), Heard())
    metadata = tmp_path / "torch-9.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    path = f"{tmp_path}:{ROOT / 'src'}:{ROOT / 'tests'}"
    other = cluster.add_node(**MACHINE, env_vars={"PYTHONPATH": path})
    with pytest.raises(StudyError, match=r"of the cluster has torch 9\.9 for 2\..*; install the driver's versions"):
        Ray()
    cluster.remove_node(other)
