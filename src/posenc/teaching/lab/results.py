"""Views of the results of a study, or of the example study, read from the ledger at each request."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.errors import StudyError
from posenc.pictures.numbers import fixed, short
from posenc.teaching.lessons.example import EXAMPLE, LABEL, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc.pictures.view import View
    from posenc.workbench.study.results import TaskResult

DEFAULT = Path("study")
"""The folder to which ``posenc compare`` writes by default."""

_shelf = {"study": DEFAULT}


def use(folder: Path) -> None:
    """Set the study to show. The command line calls this once; requests cannot select folders."""
    _shelf["study"] = folder


def _sourced(study: Path, view: "View", python: str, **given: str) -> "View":
    """Return the view with the Python code that reads its study, and with a label for the example study."""
    if study == EXAMPLE:
        view = replace(view, readouts={"study": LABEL, **view.readouts})
        where = "from posenc.teaching.lessons.example import EXAMPLE as study"
    else:
        where = f"from pathlib import Path; study = Path({str(study)!r})"
    return replace(view, python=python.format(where=where, **given))


def _named(study: Path) -> str:
    return "the example study" if study == EXAMPLE else repr(str(study))


def curves(task: str = "language") -> "View":
    """Show the task's measure (loss or accuracy) for every encoding at every length, with intervals."""
    from posenc.pictures.view import Lines
    from posenc.workbench.report.charts import over_lengths
    from posenc.workbench.report.words import together

    view = _charted(over_lengths, task)
    (panel,) = (panel for panel in view.panels if isinstance(panel, Lines))
    ends = {line.name: (float(line.values[0]), float(line.values[-1])) for line in panel.lines if not line.hollow}
    changes = {
        name: round(abs(end - start), 2) for name, (start, end) in ends.items() if math.isfinite(end - start)
    }
    if not changes:
        return view
    least, most = [
        together(
            [f"{n} ({fixed(ends[n][0], 2)} to {fixed(ends[n][1], 2)})" for n in changes if changes[n] == extreme]
        )
        for extreme in (min(changes.values()), max(changes.values()))
    ]
    span = f"From {short(panel.x.values[0])} to {short(panel.x.values[-1])} tokens {panel.y_name}"
    return replace(view, title=f"{span} changes most with {most}, least with {least}")


def depths(task: str = "needle") -> "View":
    """Show accuracy by depth and length, with one panel per encoding."""
    from posenc.workbench.report.charts import by_depth

    return _charted(by_depth, task)


def table(task: str = "ordering") -> "View":
    """Show the rows of the study's newest learned table before and after training."""
    from posenc.teaching.views.table import trained
    from posenc.workbench.study.trained_weights import newest_table

    study = shown(_shelf["study"])
    newest = newest_table(study, task)
    if newest is None:
        raise StudyError(
            f"{_named(study)} has no learned table for the task {task!r}; to train one, type: "
            f"posenc compare --tasks {task} --encodings learned --output {_shelf['study']}"
        )
    plan, before, after = newest
    return _sourced(study, trained(before, after, f"after {plan.steps} steps"), TABLE_PYTHON, run=plan.id)


TABLE_PYTHON = """\
{where}
from safetensors.torch import load_file

rows = load_file(study / "checkpoints/{run}.safetensors")["encoding.weight"]
unit = rows / rows.norm(dim=-1, keepdim=True)
print(unit @ unit.T)"""


PYTHON = """\
{where}
from posenc.workbench.run.ledger import Ledger

with Ledger(study) as ledger:
    for run in ledger.runs():
        if run.plan.task == "{task}":
            print(run.plan.encoding, [(cell.length, cell.measure, cell.value) for cell in run.cells])"""


def _charted(chart: "Callable[[TaskResult], View | None]", task: str) -> "View":
    """Return the chart of the newest runs of a task."""
    from posenc.workbench.run.ledger import Ledger
    from posenc.workbench.study.results import newest

    study = shown(_shelf["study"])
    with Ledger(study) as ledger:
        runs = ledger.runs()
    tasks = dict.fromkeys(run.plan.task for run in runs)
    if task not in tasks:
        raise StudyError(
            f"{_named(study)} has no run of the task {task!r} yet (it has runs of {', '.join(tasks) or 'no task'}"
            f"); choose another task, or type: posenc compare --tasks {task} --output {_shelf['study']}"
        )
    view = chart(newest([run for run in runs if run.plan.task == task]))
    if view is None:
        raise StudyError(
            f"the runs of {task!r} in this study have no accuracy by depth; choose needle, recent or flip-flop"
        )
    return _sourced(study, view, PYTHON, task=task)
