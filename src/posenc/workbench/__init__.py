"""Functions that study encodings and extend the context of checkpoints."""

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from posenc.errors import no_attribute

if TYPE_CHECKING:
    from posenc.workbench.extended import extend as extend
    from posenc.workbench.notebook import Opened
    from posenc.workbench.tasks.check import check_task as check_task

HOMES = {"check_task": "tasks.check:check_task", "extend": "extended:extend"}
"""The functions that are imported on first use, with their modules."""


def open(study: str | Path = "study") -> "Opened":
    """Open a study that ``posenc compare`` wrote, with its runs, numbers, losses and verdicts as data frames and
    figures."""
    from posenc.workbench.notebook import Opened

    return Opened(study)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise no_attribute(__name__, name, (*HOMES, "open"))
    return resolve_name(f"{__name__}.{HOMES[name]}")
