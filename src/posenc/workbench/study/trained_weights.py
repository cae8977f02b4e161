"""The trained weights of runs: language models, and learned tables before and after training."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.catalogue import CATALOGUE
from posenc.encodings.learned import Learned
from posenc.encodings.learned_grid import LearnedGrid
from posenc.errors import StudyError
from posenc.workbench.run.checkpoint import load_weights
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.training import build, encoding, task_of
from posenc.workbench.run.transformer import Transformer, draw_parameters
from posenc.workbench.study.study import source_of
from posenc.workbench.tasks import Text


@dataclass(frozen=True)
class TrainedTable:
    """The rows of one run's table, ``before`` and ``after`` training."""

    plan: Plan
    before: Float[Tensor, "P C"]
    after: Float[Tensor, "P C"]


def language_plans(study: Path) -> list[Plan]:
    """The plans of a study's runs on language, oldest first."""
    with Ledger(study) as ledger:
        return [run.plan for run in ledger.runs() if run.plan.task == "language"]


def trained_model(study: Path, plan: Plan, text: Text, device: str = "cpu") -> Transformer:
    """The model of a study's run on language, in evaluation mode on any device.

    Raises:
        StudyError: the run was trained on another text, or its weights are missing.
    """
    if plan.text_sha256 != text.sha256:
        raise StudyError(
            f"{plan.name} of {str(study)!r} was not trained on the present {text.name!r}; restore the text "
            "that it was trained on, or pass that text as --text"
        )
    model = build(replace(plan, device=device), task_of(plan, text))
    model.load_state_dict(load_weights(study, plan))
    return model.eval()


def language_models(study: Path) -> dict[str, Transformer]:
    """The language models of a study by encoding; if there are several seeds, the last one."""
    text = source_of(study).load()
    return {plan.encoding: trained_model(study, plan, text) for plan in language_plans(study)}


def newest_table(study: Path, name: str) -> TrainedTable | None:
    """The table of a task's newest run that has a learned table, or None."""
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
    """Whether this is an encoding of the catalogue with one row of weights per position; custom classes are not."""
    entry = CATALOGUE.get(text.partition("(")[0])
    return entry is not None and entry.make in (Learned, LearnedGrid)
