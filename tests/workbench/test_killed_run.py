"""One run under kill -9, thirty times at random: it goes on mid-way and ends in the numbers of one left alone."""

import multiprocessing as mp
import time
from pathlib import Path
from random import Random

import pytest

from posenc.workbench.run.plan import Run
from support.dying import PLAN, carry_out

KILLS = 30


class Process:
    """A process that carries the run out."""

    def __init__(self, folder: Path) -> None:
        context = mp.get_context("forkserver")
        self.heard, speaking = context.Pipe(duplex=False)
        self.process = context.Process(target=carry_out, args=(folder, speaking))
        self.process.start()
        speaking.close()

    def until(self, step: int) -> int:
        """The first step that it tells, once it has told this one."""
        first = reached = self.heard.recv()
        while reached < step:
            reached = self.heard.recv()
        return int(first)

    def end(self) -> tuple[list[float], Run]:
        """Its losses and what it finds, once it has ended."""
        said = self.heard.recv()
        while not isinstance(said, tuple):
            said = self.heard.recv()
        self.process.join()
        self.heard.close()
        return said

    def kill(self) -> None:
        assert self.process.is_alive()
        self.process.kill()
        self.process.join()
        self.heard.close()


@pytest.mark.slow
def test_thirty_kills_change_no_number_of_a_run(tmp_path: Path) -> None:
    mp.get_context("forkserver").set_forkserver_preload(["support.dying"])
    whole, broken, random = tmp_path / "whole", tmp_path / "broken", Random(0)
    losses, want = Process(whole).end()
    went_on = 0
    for step in sorted(random.sample(range(1, PLAN.steps - 3), KILLS)):
        process = Process(broken)
        went_on += process.until(step) > 1
        time.sleep(random.random() * 0.01)  # into a step, or into the writing of its state
        process.kill()
    assert went_on > KILLS // 2
    again, got = Process(broken).end()
    assert again == losses
    assert len(losses) == PLAN.steps
    assert str(got.cells) == str(want.cells)  # some are no number, where no answer lies
    (one,), (other,) = (list(folder.glob("*.safetensors")) for folder in (whole, broken))
    assert one.read_bytes() == other.read_bytes()
    assert [file.name for file in broken.iterdir()] == [f"{PLAN.id}.safetensors"]
