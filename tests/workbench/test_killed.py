"""compare under kill -9: whatever moment it dies at, the same command goes on and ends in the same numbers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.study import read_study
from support.studies import numbers, python_text, ran
from support.typed import Typed

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


class Killed(Typed):
    """A study that is begun as often as it is killed."""

    def __init__(self, folder: Path, seeds: int, tasks: tuple[str, ...] = ("ordering", "needle")) -> None:
        super().__init__(folder, folder.with_suffix(".toml"), "--workers", "1")
        self.config.write_text(CONFIG.format(seeds=seeds, tasks=list(tasks)))
        self.plans = {plan.id for plan in read_study(config=self.config).plans(python_text())}

    def carried_out(self) -> dict[tuple[str, int, str], tuple[float, tuple[float, ...]]]:
        """Every number of the study, what is missing of it carried out here."""
        ran(read_study(config=self.config), self.folder)
        return numbers(self.folder)

    def weights(self) -> int:
        """Files of weights; one is there a moment before its run is in the ledger."""
        return len(list(self.folder.glob("checkpoints/*.safetensors")))

    def kill(self, ready: Callable[[], bool], *, workers: bool = True) -> int:
        """Start the command, and kill -9 it, with or without its workers, once it is ready; how many runs are kept.

        There must have been runs still to do.
        """
        started = self.started(ready)
        (os.killpg if workers else os.kill)(started.pid, signal.SIGKILL)
        started.wait()
        kept = {run for run, _, _ in numbers(self.folder)} if self.rows() else set()
        assert kept < self.plans, "nothing was missing any more"
        return len(kept)


@pytest.mark.long
def test_a_killed_study_goes_on_and_ends_in_the_same_numbers(tmp_path: Path) -> None:
    whole, broken = (Killed(tmp_path / name, 1, ("needle",)) for name in ("whole", "broken"))
    assert broken.kill(lambda: broken.rows() >= 1) >= 1
    assert broken.carried_out() == whole.carried_out()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["local", "in-process"])
def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(copied_study: Path, launcher: str) -> None:
    """As a terminal does it, every process of the group has the signal; and then the same command goes on."""
    config, where = copied_study / "study.toml", ["--launcher", launcher]
    extended = ["extend", str(copied_study), "--methods", "none,yarn,ntk", "--documents", "2", "--finetune", "200"]
    for folder, words in (
        (copied_study / "new", ["compare", "--config", str(config), "--seeds", "9"]),
        (copied_study / "extension", extended),
    ):
        typed = Typed(folder, config)
        with (copied_study / "said").open("w+") as said:
            command = [sys.executable, "-m", "posenc", *words, *where, "--output", str(folder)]
            heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background job would ignore it
            process = subprocess.Popen(command, start_new_session=True, preexec_fn=heard, stderr=said, stdout=said)
            while process.poll() is None and not typed.rows():
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait() == 130
            said.seek(0)
            assert said.read().endswith("stopped; run the same command to resume\n")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and left(process.pid):
            time.sleep(0.01)
        assert left(process.pid) == []
        kept = typed.rows()
        assert kept
        with Ledger(folder, write=True) as ledger:  # no lock is left
            assert len(ledger.ids()) == kept
        assert not list(folder.rglob("*.partial"))


def left(group: int) -> list[int]:
    """The processes of a group, without those that have ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of_group = stat.read_text().rpartition(")")[2].split()[:3]
            found += [int(stat.parent.name)] if int(of_group) == group and state != "Z" else []
    return found


@pytest.mark.slow
@pytest.mark.parametrize("workers", [True, False], ids=["with its workers", "alone"])
def test_thirty_kills_change_no_number(tmp_path: Path, workers: bool) -> None:
    """A third of them as it starts, a third as weights land, a third as a run is kept."""
    whole, broken = Killed(tmp_path / "whole", seeds=5), Killed(tmp_path / "broken", seeds=5)
    moment = Random(0)
    for _ in range(10):
        wait = iter(range(moment.randrange(200)))  # looks of 10 ms: imports, the ledger's opening, the first steps
        kept = broken.kill(lambda looks=wait: next(looks, None) is None, workers=workers)
        written = broken.weights()
        kept = max(kept, broken.kill(lambda before=written: broken.weights() > before, workers=workers))
        assert broken.kill(lambda before=kept: broken.rows() > before, workers=workers) > kept
    assert broken.finish() == whole.finish()
