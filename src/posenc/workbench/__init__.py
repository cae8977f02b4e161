"""Functions that study encodings and extend the context of checkpoints."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.laws.check import Report
    from posenc.workbench.extended import extend as extend
    from posenc.workbench.notebook import Opened
    from posenc.workbench.tasks import Task, Text


def open(study: str | Path = "study") -> "Opened":
    """Open a study of ``posenc compare``: its runs, numbers, losses and verdicts as data frames and figures."""
    from posenc.workbench.notebook import Opened

    return Opened(study)


def check_task(task: "str | Task", text: "Text | None" = None) -> "Report":
    """Check in a few seconds that a task's batches are valid and repeatable and that guessing stays at chance.

    Print the result with ``print(check_task("my_module:MyTask"))``.

    Args:
        task: a name, ``module:Class``, or an instance.
        text: the text for a task that reads one; if None, the default text.
    """
    from posenc.workbench.tasks.check import check_task

    return check_task(task, text)


def __getattr__(name: str) -> Any:
    """Import ``extend`` on its first use, and return it."""
    if name != "extend":
        from posenc.errors import no_attribute

        raise no_attribute(__name__, name, ("check_task", "extend", "open"))
    from posenc.workbench.extended import extend

    return extend
