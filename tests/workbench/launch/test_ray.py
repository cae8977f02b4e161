"""The Ray launcher on a real cluster of two machines' processes; a worker and a machine are killed."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import StudyError
from posenc.workbench.launch.ray import Ray
from posenc.workbench.run.job import Progress, Requirements
from support.cluster import MACHINE, ROOT
from support.launch_jobs import REASONS, Heard, counting, failing, seeing

LEFT_OPEN = r"ignore:Exception ignored in. <_io\.FileIO:pytest.PytestUnraisableExceptionWarning"
"""Ray's logs, which Ray 2.40 leaves open."""
pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings(LEFT_OPEN),
]


@pytest.fixture(params=["with its folder", "without it"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Of a study's runs: other machines have the study's folder, or find none where the driver says that it is."""
    study = tmp_path / "study"
    if request.param == "with its folder":
        study.mkdir()
    return study / "checkpoints"


@dataclass
class Killing(Heard):
    """Ends a machine as soon as both jobs wait for it."""

    cluster: Any = None
    machine: Any = None
    ended: Path = Path()

    def report(self, progress: Progress) -> None:
        super().report(progress)
        if self.machine is not None and [max(losses) for losses in self.losses.values() if losses] == [39, 39]:
            machine, self.machine = self.machine, None
            self.cluster.remove_node(machine, allow_graceful=False)
            self.ended.touch()


@pytest.mark.slow
def test_a_run_of_a_killed_machine_continues_with_its_folder_and_starts_anew_without(
    cluster: Any, tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ended, shared = tmp_path / "ended", folder.parent.is_dir()
    heard = Killing(cluster=cluster, machine=cluster.add_node(**MACHINE), ended=ended)
    jobs = [counting(folder, name, 60, pause=0.02, waits=str(ended)) for name in "ab"]
    Ray()(jobs, heard.done, heard.report)
    assert heard.machine is None
    assert [total for total, _ in heard.sums().values()] == [sum(range(60))] * 2
    assert sorted(first for _, first in heard.sums().values()) == [0, 40 * shared]
    assert sorted(file.name for file in folder.iterdir()) == sorted(f"{job.plan.id}.weights" for job in jobs)
    assert all(set(losses) == set(range(60)) for losses in heard.losses.values())
    said = capfd.readouterr()
    assert "state-dump" not in said.out + said.err


@pytest.mark.slow
def test_a_run_whose_process_dies_is_started_again_and_given_up_if_it_always_dies(
    cluster: Any, tmp_path: Path
) -> None:
    heard, folder = Heard(), tmp_path / "checkpoints"
    jobs = [counting(folder, "once", fails="once"), counting(folder, "always", fails="always")]
    Ray()(jobs, heard.done, heard.report)
    assert heard.sums() == {"once": (190, 15)}
    assert "The worker died unexpectedly" in heard.reasons()["always"]


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "devices"), [(2, ["0,1"]), (0.5, ["0", "1"])])
def test_jobs_have_their_gpus_text_and_modules_and_fail_as_themselves(
    cluster: Any, tmp_path: Path, gpus: float, devices: list[str]
) -> None:
    heard, kept = Heard(), tmp_path / "study" / "checkpoints"
    (own := tmp_path / "own").mkdir()
    Ray(Requirements(gpus=gpus))([seeing(kept, own, "sees"), *failing(tmp_path)], heard.done, heard.report)
    assert heard.reasons() == REASONS
    sees = json.loads((kept / f"{heard.found['sees'].plan.id}.seen").read_text())
    assert (sees["text"], sees["module"], sees["threads"]) == (80, 7, 1)
    assert sees["devices"] in devices
    assert not sees["folder"].startswith(str(tmp_path))
    assert not sees["posenc"].startswith(str(ROOT))  # it was sent along


@pytest.mark.slow
def test_what_no_machine_has_is_refused(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"needs cpus=1 and gpus=3, .* \(at most cpus=1 and gpus=2\); lower cpus"):
        Ray(Requirements(gpus=3))([counting(tmp_path, "any")], print, print)
