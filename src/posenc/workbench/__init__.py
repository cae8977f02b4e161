"""Everything that is run rather than imported: studies, claims, figures, the lab, the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc.workbench.notebook import Opened


def open(study: str | Path = "study") -> "Opened":
    """A study of ``posenc compare``: runs, numbers, losses and verdicts as frames, and figures of them."""
    from posenc.workbench.notebook import Opened

    return Opened(study)
