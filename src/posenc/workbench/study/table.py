"""A ledger as flat rows for CSV files and frames: one for each run, each measured number or each step."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.run.settings import ByTask, Model, Training, declared

NUMBERS = ("run", "task", "encoding", "seed", "length", "measure", "value", "count", "note")
MORE = ("device", "text_sha256", "tokenizer", "numerics")


def of_run(run: Run[Plan], ledger: Ledger) -> dict[str, Any]:
    """Settings and result of a run, every setting under its name."""
    plan, curve = run.plan, ledger.curve(run.plan.id)
    settings = [name for group in (ByTask, Model, Training) for name in declared(group)]
    return {
        **_head(run),
        "seconds": run.seconds,
        "parameters": run.parameters,
        "final_loss": run.final_loss,
        "verdict": run.verdict,
        "tokens_per_second": curve.tokens_per_second,
        **{name: getattr(plan, name) for name in (*settings, *MORE) if hasattr(plan, name)},
        "created": run.created,
        "versions": run.versions,
        "hardware": run.hardware,
    }


def of_cells(runs: Sequence[Run[Plan]]) -> Iterator[dict[str, Any]]:
    """Every measured number; ``detail`` holds the numbers behind it: blocks, answers, or buckets of positions."""
    for run in runs:
        for c in run.cells:
            cell = {"length": c.length, "measure": c.measure, "value": c.value, "count": c.count, "note": c.note}
            yield {**_head(run), **cell, "detail": c.detail}


def of_steps(runs: Sequence[Run[Plan]], ledger: Ledger) -> Iterator[dict[str, Any]]:
    """The loss and the gradient's norm of every step, and the validation loss of those that have one."""
    for run in runs:
        curve = ledger.curve(run.plan.id)
        validation = dict(curve.validation)
        for step, (loss, norm) in enumerate(zip_longest(curve.losses, curve.norms)):
            more = {"gradient_norm": norm, "validation_loss": validation.get(step)}
            yield {**_head(run), "step": step, "loss": loss, **more}


def _head(run: Run[Plan]) -> dict[str, Any]:
    return {"run": run.plan.id, "task": run.plan.task, "encoding": run.plan.encoding, "seed": run.plan.seed}
