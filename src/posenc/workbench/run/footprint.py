"""What a study needs of memory and disk, worked out before anything trains."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from posenc.errors import StudyError
from posenc.integrations.huggingface.load import free_memory
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.training import config, encoding, task_of
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.tasks import Task, Text

BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}
MOMENTS = {"adamw": 2, "adam": 2, "sgd": 1}
"""Numbers that an optimiser keeps for every parameter."""
KEPT = 12
"""Numbers of the model's width that a layer keeps of a token for the gradient, beside its feed-forward part: inputs
of two norms and four maps, queries, keys and values before and after they turn."""


@dataclass(frozen=True)
class Footprint:
    """Of one run, on each of its devices, in bytes.

    Args:
        parameters: how many.
        memory: at once in training: weights, gradients, optimiser, activations, logits. An estimate: what an
            encoding keeps of its own, and blocks of scores, are not in it.
        disk: its weights, all of them.
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
    tokens, parts = plan.batch * plan.train_length / plan.devices, plan.devices if plan.parallel == "fsdp" else 1
    state = count * size * (1 + MOMENTS[plan.optimiser])
    memory = (state + count * size) / parts + tokens * (kept * moving + 3 * 4 * made.outputs)
    return Footprint(count, round(memory), count * size, state)


class _Undrawn(TorchFunctionMode):
    """Draws no numbers for tensors that hold none; to find their shapes torch would load its compiler."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = {**(kwargs or {})}
        if func.__name__ == "normal_":
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def check_room(plans: Sequence[Plan], text: Text, folder: Path, places: Sequence[str]) -> None:
    """Refuse plans that memory or disk here cannot hold, one at a time in each of these places; say which would.

    Runs whose places are the same share its device.

    Raises:
        StudyError: with the figures.
    """
    alike = {(p.settings, p.task, p.width, p.layers, p.train_length, p.batch): p for p in plans}
    needs = {key: footprint(p, task_of(p, text)) for key, p in alike.items()}
    if not needs or not places:
        return
    largest = max(needs.values(), key=lambda need: need.memory)
    at_once = max(Counter(places[: len(plans)]).values())
    together = at_once * largest.memory * (plans[0].devices if plans[0].device == "cpu" else 1)
    free = free_memory(torch.device(plans[0].device))
    if together > free:
        raise StudyError(
            f"{at_once} run{'s' if at_once > 1 else ''} at a time on a device need about {_gib(together)} of "
            f"memory and {_gib(free)} are free; use fewer --workers, a smaller batch, or recompute (a run: "
            f"{largest.parameters:,} parameters, {_gib(largest.memory)})"
        )
    wanted = len(plans) * max(need.disk for need in needs.values()) + min(len(places), len(plans)) * largest.state
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
