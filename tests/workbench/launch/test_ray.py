"""The Ray launcher on a real cluster of two machines' processes that share no folder; one machine is killed."""

import json
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import StudyError
from posenc.workbench.launch.ray import Ray
from posenc.workbench.run.job import Progress, Requirements
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.comparison import Comparison
from support.cluster import MACHINE, ROOT
from support.launch_jobs import REASONS, Heard, counting, failing, seeing
from support.studies import TINY, inline, numbers, python_text

LEFT_OPEN = r"ignore:Exception ignored in. <_io\.FileIO:pytest.PytestUnraisableExceptionWarning"
"""Ray's logs, which Ray 2.40 leaves open."""
pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings(LEFT_OPEN),
]


@dataclass
class Killing(Heard):
    """Ends a machine as soon as the states of both jobs lie here, which wait for it."""

    cluster: Any = None
    machine: Any = None
    ended: Path = Path()
    folder: Path = Path()

    def report(self, progress: Progress) -> None:
        super().report(progress)
        if self.machine is not None and len(list(self.folder.glob("*.state"))) == 2:
            machine, self.machine = self.machine, None
            self.cluster.remove_node(machine, allow_graceful=False)
            self.ended.touch()


@pytest.mark.slow
def test_a_machine_killed_in_the_middle_loses_nothing(
    cluster: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = tmp_path.with_name("ended")
    heard = Killing(cluster=cluster, machine=cluster.add_node(**MACHINE), ended=ended, folder=tmp_path)
    jobs = [counting(tmp_path, name, 60, pause=0.02, waits=str(ended)) for name in "ab"]
    Ray()(jobs, heard.done, heard.report)
    assert heard.machine is None
    assert [total for total, _ in heard.sums().values()] == [sum(range(60))] * 2
    assert sorted(first > 0 for _, first in heard.sums().values()) == [False, True]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"{job.plan.id}.weights" for job in jobs)
    assert all(set(losses) == set(range(60)) for losses in heard.losses.values())
    said = capfd.readouterr()
    assert "state-dump" not in said.out + said.err


@pytest.mark.slow
def test_a_study_has_the_numbers_that_it_has_here(cluster: Any, tmp_path: Path) -> None:
    study = replace(TINY, encodings=("rotary",), tasks=("needle",))
    for name, launcher in (("ray", Ray()), ("here", inline)):
        with Ledger(tmp_path / name, write=True) as ledger:
            assert Comparison(study, python_text(), ledger).run(launcher).failures == ()
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "here")
    left = [sorted(file.name for file in (tmp_path / name / "checkpoints").iterdir()) for name in ("ray", "here")]
    assert left[0] == left[1] != []


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "devices"), [(2, ["0,1"]), (0.5, ["0", "1"])])
def test_jobs_have_their_gpus_text_and_modules_and_fail_as_themselves(
    cluster: Any, tmp_path: Path, gpus: float, devices: list[str]
) -> None:
    heard = Heard()
    (own := tmp_path / "own").mkdir()
    Ray(Requirements(gpus=gpus))(
        [seeing(tmp_path / "kept", own, "sees"), *failing(tmp_path)], heard.done, heard.report
    )
    assert heard.reasons() == REASONS
    sees = json.loads((tmp_path / "kept" / f"{heard.found['sees'].plan.id}.seen").read_text())
    assert (sees["text"], sees["module"], sees["threads"]) == (80, 7, 1)
    assert sees["devices"] in devices
    assert not sees["folder"].startswith(str(tmp_path))


@pytest.mark.slow
def test_what_no_machine_has_and_other_versions_are_refused(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"asks for cpus=1 and gpus=3, .* \(at most 1 CPUs, 2 GPUs\); ask for less"
    ):
        Ray(Requirements(gpus=3))
    metadata = tmp_path / "torch-9.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    path = f"{tmp_path}:{ROOT / 'src'}:{ROOT / 'tests'}"
    other = cluster.add_node(**MACHINE, env_vars={"PYTHONPATH": path})
    with pytest.raises(StudyError, match=r"of the cluster has torch 9\.9 for .*; install the driver's versions"):
        Ray()
    cluster.remove_node(other)
