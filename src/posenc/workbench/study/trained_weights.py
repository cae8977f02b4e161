"""Loads the trained weights of runs: language models, or learned position tables with their initial values."""

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
from posenc.workbench.run.training import encoding
from posenc.workbench.run.transformer import Transformer, draw_parameters
from posenc.workbench.study.study import source_of
from posenc.workbench.tasks import Text


def plans_of(study: Path, task: str = "language") -> list[Plan]:
    """Return the plans of a study's runs on a task that did not diverge, oldest first."""
    with Ledger(study) as ledger:
        return [run.plan for run in ledger.runs() if run.plan.task == task and not run.verdict]


def trained_model(study: Path, plan: Plan, text: Text, device: str = "cpu") -> Transformer:
    """Load the model of a study's run on the task ``language`` onto a device, in evaluation mode.

    Raises:
        StudyError: the run was trained on another text, or its weights are missing.
    """
    if plan.text_sha256 != text.sha256:
        raise StudyError(
            f"{plan.name} of {str(study)!r} was not trained on the current content of {text.name!r}; pass or "
            "restore the text on which it was trained"
        )
    weights = load_weights(study, plan)
    vocabulary, outputs = len(weights["embedding.weight"]), len(weights["head.weight"])
    model = Transformer(plan, encoding(plan), vocabulary, outputs).to(device, getattr(torch, plan.dtype))
    model.load_state_dict(weights)
    return model.eval()


def language_models(study: Path) -> dict[str, Transformer]:
    """Load the language models of a study by encoding. If an encoding has several runs, the newest run is used."""
    text = source_of(study).load()
    return {plan.encoding: trained_model(study, plan, text) for plan in plans_of(study)}


def newest_table(study: Path, name: str) -> tuple[Plan, Float[Tensor, "P C"], Float[Tensor, "P C"]] | None:
    """Return the plan of the newest run on the task ``name`` whose encoding is a learned position table, and this
    table before and after training. Return None if there is no such run."""
    tables = [word for word, entry in CATALOGUE.items() if entry.make in (Learned, LearnedGrid)]
    plans = [plan for plan in plans_of(study, name) if plan.encoding.partition("(")[0] in tables]
    if not plans:
        return None
    plan = plans[-1]
    table = encoding(plan)
    draw_parameters(table, plan.seed)
    fresh = table.get_parameter("weight").to(getattr(torch, plan.dtype))
    return plan, fresh, load_weights(study, plan)["encoding.weight"]
