"""compare under kill -9: whatever moment it dies at, the same command goes on and ends in the same numbers."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from posenc.workbench.experiments.compare import compare
from posenc.workbench.experiments.ledger import Ledger
from posenc.workbench.experiments.study import Study, study
from workbench.studies import inline, numbers, python_text

CONFIG = """
encodings = ["nope", "rotary", "alibi"]
tasks = {tasks}
lengths = [1, 2]
seeds = {seeds}
answers = 64
[steps]
ordering = 12
needle = 8
"""


class Killed:
    """A study in a folder of its own, begun by the command line as often as it is killed."""

    def __init__(self, folder: Path, seeds: int, tasks: tuple[str, ...] = ("ordering", "needle")) -> None:
        self.folder = folder
        self.config = folder.with_suffix(".toml")
        self.config.write_text(CONFIG.format(seeds=seeds, tasks=list(tasks)))
        self.plans = {plan.id for plan in study(Study(), self.config, {}).plans(python_text())}

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "posenc", "compare", "--workers", "1"]
        places = ["--config", str(self.config), "--output", str(self.folder)]
        return subprocess.Popen([*command, *places], start_new_session=True, stdout=subprocess.DEVNULL)

    def finish(self) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
        """Run the command to its end; every number of the ledger."""
        assert self.start().wait() == 0
        return numbers(self.folder)

    def undisturbed(self) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
        """Every number of the same study, carried out here from end to end."""
        with Ledger(self.folder, write=True) as ledger:
            compare(study(Study(), self.config, {}), python_text(), ledger, inline)
        return numbers(self.folder)

    def recorded(self) -> int:
        """Runs in the ledger, read beside the process that writes it."""
        try:
            with closing(sqlite3.connect(f"file:{self.folder / 'ledger.sqlite'}?mode=ro", uri=True)) as ledger:
                return int(ledger.execute("SELECT count(*) FROM runs").fetchone()[0])
        except sqlite3.OperationalError:  # no file or no schema yet
            return 0

    def weights(self) -> int:
        """Files of weights; one is there a moment before its run is in the ledger."""
        return len(list(self.folder.glob("checkpoints/*.safetensors")))

    def kill(self, ready: Callable[[], bool], *, workers: bool = True) -> int:
        """Start the command, and kill -9 it, with or without its workers, once it is ready; how many runs are kept.

        The command must have been alive, with runs still to do.
        """
        started = self.start()
        while started.poll() is None and not ready():
            time.sleep(0.01)
        assert started.poll() is None, "it ended before it was killed"
        (os.killpg if workers else os.kill)(started.pid, signal.SIGKILL)
        started.wait()
        kept = {run for run, _, _ in numbers(self.folder)} if self.recorded() else set()
        assert kept < self.plans, "nothing was missing any more"
        return len(kept)


def test_a_killed_study_goes_on_and_ends_in_the_same_numbers(tmp_path: Path) -> None:
    whole, broken = (Killed(tmp_path / name, 1, ("needle",)) for name in ("whole", "broken"))
    assert broken.kill(lambda: broken.recorded() >= 1) >= 1
    assert broken.finish() == whole.undisturbed()
    assert (broken.folder / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [True, False], ids=["with its workers", "alone"])
def test_two_dozen_kills_change_no_number(tmp_path: Path, workers: bool) -> None:
    """A third of them as it starts, a third as weights land, a third as a run is kept."""
    whole, broken = Killed(tmp_path / "whole", seeds=4), Killed(tmp_path / "broken", seeds=4)
    moment = Random(0)
    for _ in range(8):
        wait = iter(range(moment.randrange(200)))  # looks of 10 ms: imports, the ledger's opening, the first steps
        kept = broken.kill(lambda looks=wait: next(looks, None) is None, workers=workers)
        written = broken.weights()
        kept = max(kept, broken.kill(lambda before=written: broken.weights() > before, workers=workers))
        assert broken.kill(lambda before=kept: broken.recorded() > before, workers=workers) > kept
    assert broken.finish() == whole.finish()
