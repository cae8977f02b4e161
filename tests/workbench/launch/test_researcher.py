"""What a researcher asks in one sentence is one file: it runs here and on a cluster that loses a machine, alike."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.cluster import MACHINE
from support.custom import write
from support.studies import numbers
from support.typed import Typed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
]

GUIDE = Path(__file__).parents[3] / "docs" / "studies.md"
SMALLER = ("--width", "32", "--layers", "4", "--heads", "4", "--steps", "6", "--batch", "4", "--train-length", "32")
FEWER = ("--lengths", "1,2", "--blocks", "4", "--vocabulary", "512")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The file of the guide, beside the class of one's own that it names."""
    write(tmp_path)
    path = tmp_path / "researcher.toml"
    path.write_text(GUIDE.read_text().partition('```toml title="researcher.toml"')[2].partition("```")[0])
    return path


def test_here_and_on_a_cluster_that_loses_a_machine_are_the_same_numbers(
    cluster: Any, config: Path, tmp_path: Path
) -> None:
    here, there = (Typed(tmp_path / name, config, *SMALLER, *FEWER) for name in ("here", "there"))
    want = here.finish("--workers", "2")
    assert len({run for run, _, _ in want}) == 25
    machine = cluster.add_node(**MACHINE)
    driver = there.started(lambda: there.rows() >= 6, "--launcher", "ray")
    cluster.remove_node(machine, allow_graceful=False)
    assert driver.wait() == 0
    assert numbers(there.folder) == want
    left = [sorted(file.name for file in (each.folder / "checkpoints").iterdir()) for each in (here, there)]
    assert left[0] == left[1]
