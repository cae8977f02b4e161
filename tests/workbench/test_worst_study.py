"""A study in which all goes wrong at once: a run diverges, a worker is killed, a task fails; the page comes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.custom import PENALTY, write
from support.studies import runs_in

TASK = '''
"""A task that fails once training has begun."""

from multiprocessing import parent_process

from posenc.workbench.tasks import task_class

Needle = task_class("needle")


class Broken(Needle):
    question = "what cannot be drawn?"

    def draw(self, generator, rows, length):
        if parent_process():  # a worker
            raise ArithmeticError("nothing to draw")
        return super().draw(generator, rows, length)
'''
STUDY = """
encodings = ["rotary", "grows:LogDistance", "kills:LogDistance"]
tasks = ["needle", "broken:Broken"]
lengths = [1, 2]
steps = 20
answers = 16
"""


@pytest.mark.slow
def test_a_diverging_encoding_a_killed_worker_and_a_failed_task_leave_the_page_and_every_other_run(
    tmp_path: Path,
) -> None:
    write(tmp_path, "grows", f"float('nan') * {PENALTY}")
    write(tmp_path, "kills", f"__import__('os').kill(__import__('os').getpid(), {int(signal.SIGKILL)})")
    (tmp_path / "broken.py").write_text(TASK.lstrip())
    (tmp_path / "study.toml").write_text(STUDY)
    command = [sys.executable, "-m", "posenc", "compare", "--config", "study.toml", "--output", "study"]
    done = subprocess.run(
        [*command, "--workers", "2"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "Traceback" not in said
    runs = {(run.plan.task, run.plan.encoding): run for run in runs_in(tmp_path / "study")}
    assert set(runs) == {("needle", "rotary"), ("needle", "grows:LogDistance")}, said
    assert runs["needle", "rotary"].cells
    assert runs["needle", "grows:LogDistance"].verdict.startswith("diverged")
    page = (tmp_path / "study" / "report.html").read_text()
    for text in ("diverged", "kills:LogDistance", "its worker process was killed twice", "nothing to draw"):
        assert text in page, text
    assert sum("nothing to draw" in line for line in said.splitlines()) == 3, said
