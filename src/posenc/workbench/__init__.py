"""The parts of posenc that users run: studies, claims, figures, the lab, the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.laws.check import Report
    from posenc.workbench.extended import extend as extend
    from posenc.workbench.notebook import Opened
    from posenc.workbench.tasks import Task, Text


def open(study: str | Path = "study") -> "Opened":
    """Open a study of ``posenc compare``: its runs, numbers, losses and verdicts as frames, and figures of them."""
    from posenc.workbench.notebook import Opened

    return Opened(study)


def check_task(task: "str | Task", text: "Text | None" = None) -> "Report":
    """Check that a task keeps its laws: ``print(check_task("my_module:MyTask"))``; this takes seconds.

    Args:
        task: a name, ``module:Class``, or an instance.
        text: the text of tasks that read one; the default text unless given.
    """
    from posenc.workbench.tasks.check import check_task

    return check_task(task, text)


def __getattr__(name: str) -> Any:
    """``extend``, imported on first use."""
    if name != "extend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from posenc.workbench.extended import extend

    return extend
