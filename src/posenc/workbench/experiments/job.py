"""compare's jobs: a plan, trained and tested wherever a launcher takes it."""

from dataclasses import dataclass
from pathlib import Path

from posenc.encodings.foreign import modules
from posenc.encodings.text import parse
from posenc.workbench.experiments.plan import Plan, Run
from posenc.workbench.experiments.trainer import carry_out
from posenc.workbench.launch.job import Desk, Job
from posenc.workbench.tasks.text import load


@dataclass(frozen=True)
class Training:
    """The work of a plan on a text: a file, or by default what ships with CPython."""

    plan: Plan
    text: Path | None

    def __call__(self, desk: Desk) -> Run:
        return carry_out(self.plan, load(self.text and desk.path(self.text)), desk)


def training(plan: Plan, text: Path | None) -> Job:
    """The job of a plan, with the files and modules that it reads."""
    text = text and text.absolute()
    own = modules(parse(plan.settings).foreign)
    return Job(plan.id, plan.name, Training(plan, text), files=(text,) if text else (), modules=own)
