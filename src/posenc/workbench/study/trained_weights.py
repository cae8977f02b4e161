"""What a learned table learnt: its rows as a run of a study began with them, and as it left them."""

from dataclasses import dataclass, replace
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from posenc.encodings.catalogue import CATALOGUE
from posenc.encodings.learned import Learned
from posenc.encodings.learned_grid import LearnedGrid
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.training import build, task_of
from posenc.workbench.run.weights import weights
from posenc.workbench.tasks import Source

ROWS = "encoding.weight"
"""The rows' name among the weights of a run."""


@dataclass(frozen=True)
class LearntTable:
    """The rows of one run's table, ``before`` training and ``after``."""

    plan: Plan
    before: Float[Tensor, "P C"]
    after: Float[Tensor, "P C"]


def newest_table(study: Path, name: str) -> LearntTable | None:
    """The table of the newest run of a task that has one; None where none has."""
    with Ledger(study) as ledger:
        plans = [r.plan for r in ledger.runs() if r.plan.task == name and _has_table(r.plan.encoding)]
    if not plans:
        return None
    plan = plans[-1]
    fresh = build(replace(plan, device="cpu"), task_of(plan, Source().load())).get_parameter(ROWS)
    return LearntTable(plan, fresh, weights(study, plan)[ROWS])


def _has_table(encoding: str) -> bool:
    """Whether it is a catalogue's encoding whose weights are a row a position; nobody's own class is asked."""
    entry = CATALOGUE.get(encoding.partition("(")[0])
    return entry is not None and entry.make in (Learned, LearnedGrid)
