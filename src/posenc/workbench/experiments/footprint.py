"""What a study needs of memory and disk, worked out before anything trains."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from posenc.errors import StudyError
from posenc.integrations.huggingface.load import free_memory
from posenc.workbench.experiments.plan import Plan
from posenc.workbench.experiments.training import config, encoding, task_of
from posenc.workbench.tasks import Task, Text
from posenc.workbench.transformer import Transformer

BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}
MOMENTS = {"adamw": 2, "adam": 2, "sgd": 1}
"""Numbers that an optimiser keeps for every parameter."""
KEPT = 12
"""Numbers of the model's width that a layer keeps of a token for the gradient, beside its feed-forward part: inputs
of two norms and four maps, queries, keys and values before and after they turn."""


@dataclass(frozen=True)
class Footprint:
    """Of one run, in bytes.

    Args:
        parameters: how many.
        memory: at once in training: weights, gradients, optimiser, activations, logits. An estimate: what an
            encoding keeps of its own, and blocks of scores, are not in it.
        disk: its weights.
        state: what it keeps on disk while it goes on.
    """

    parameters: int
    memory: int
    disk: int
    state: int


def footprint(plan: Plan, made: Task) -> Footprint:
    """What one run of a plan needs; its parameters are counted on a model that has none."""
    shape = config(plan, made)
    with torch.device("meta"), _Undrawn():
        count = sum(p.numel() for p in Transformer(shape, encoding(plan)).parameters())
    size = BYTES[plan.dtype]
    moving = size if plan.autocast == "none" else BYTES[plan.autocast]
    of_layer = KEPT * plan.width + 2 * (shape.hidden or 4 * plan.width)
    kept = plan.width * plan.layers + of_layer if plan.recompute else of_layer * plan.layers
    tokens = plan.batch * plan.train_length
    state = count * size * (1 + MOMENTS[plan.optimiser])
    memory = state + count * size + tokens * (kept * moving + 3 * 4 * made.outputs)
    return Footprint(count, memory, count * size, state)


class _Undrawn(TorchFunctionMode):
    """Draws no numbers for tensors that hold none; to find their shapes torch would load its compiler."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = {**(kwargs or {})}
        if func.__name__ == "normal_":
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def check_room(plans: Sequence[Plan], text: Text, folder: Path, at_once: int) -> None:
    """Refuse plans that memory or disk here cannot hold, ``at_once`` of them at a time; say which would.

    Raises:
        StudyError: with the figures.
    """
    alike = {(p.settings, p.task, p.width, p.layers, p.train_length, p.batch): p for p in plans}
    needs = {key: footprint(p, task_of(p, text)) for key, p in alike.items()}
    if not needs:
        return
    largest = max(needs.values(), key=lambda need: need.memory)
    together = min(at_once, len(plans)) * largest.memory
    free = free_memory(torch.device(plans[0].device))
    if together > free:
        raise StudyError(
            f"{min(at_once, len(plans))} runs at a time need about {_gib(together)} of memory and {_gib(free)} are "
            f"free; use fewer --workers, a smaller batch, or recompute (a run: {largest.parameters:,} parameters, "
            f"{_gib(largest.memory)})"
        )
    wanted = len(plans) * max(need.disk for need in needs.values()) + at_once * largest.state
    check_disk(wanted, folder, f"{len(plans)} runs")


def check_disk(wanted: int, folder: Path, what: str) -> None:
    """Refuse what leaves more bytes than there are free where ``folder`` is or will be, with the figures."""
    there = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(there).free
    if wanted > free:
        raise StudyError(
            f"{what} leave up to {_gib(wanted)} in {str(folder)!r} and {_gib(free)} are free there; choose another "
            "--output"
        )


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
