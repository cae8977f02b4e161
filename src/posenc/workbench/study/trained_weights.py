"""What runs have learned: language models, and the rows of a learned table before training and after."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.catalogue import CATALOGUE
from posenc.encodings.learned import Learned
from posenc.encodings.learned_grid import LearnedGrid
from posenc.workbench.run.checkpoint import load_weights
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.training import build, encoding, task_of
from posenc.workbench.run.transformer import Transformer, draw_parameters
from posenc.workbench.study.toml import source_of


@dataclass(frozen=True)
class TrainedTable:
    """The rows of one run's table, ``before`` training and ``after``."""

    plan: Plan
    before: Float[Tensor, "P C"]
    after: Float[Tensor, "P C"]


def language_models(study: Path) -> dict[str, Transformer]:
    """The language models of a study by their encodings, in evaluation mode; of several seeds the last."""
    with Ledger(study) as ledger:
        plans = [run.plan for run in ledger.runs() if run.plan.task == "language"]
    task = task_of(plans[0], source_of(study).load())
    models = {plan.encoding: build(plan, task).eval() for plan in plans}
    for plan in plans:
        models[plan.encoding].load_state_dict(load_weights(study, plan))
    return models


def newest_table(study: Path, name: str) -> TrainedTable | None:
    """The table of the newest run of a task that has one; None where none has."""
    with Ledger(study) as ledger:
        plans = [r.plan for r in ledger.runs() if r.plan.task == name and _has_table(r.plan.encoding)]
    if not plans:
        return None
    plan = plans[-1]
    table = encoding(plan)
    draw_parameters(table, plan.seed)
    fresh = table.get_parameter("weight").to(getattr(torch, plan.dtype))
    return TrainedTable(plan, fresh, load_weights(study, plan)["encoding.weight"])


def _has_table(text: str) -> bool:
    """Whether it is a catalogue's encoding with a row of weights for each position; never a custom class."""
    entry = CATALOGUE.get(text.partition("(")[0])
    return entry is not None and entry.make in (Learned, LearnedGrid)
