"""Computes the memory and the disk space that a study needs, before training begins."""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from posenc.encodings.encoding import Encoding
from posenc.errors import StudyError
from posenc.kernels.memory import free_memory
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.training import untrained
from posenc.workbench.tasks import Task

ACTIVATIONS = 12
"""The number of vectors of the model's width that a layer saves per token for the backward pass, excluding its
feed-forward part: inputs of two norms and four linear layers, and queries, keys and values before and after
rotation."""


@dataclass(frozen=True)
class Footprint:
    """The bytes that one run needs.

    Args:
        parameters: number of parameters.
        memory: estimated memory of weights, gradients, optimiser, activations and logits in training. It includes
            neither the encoding's tensors nor blocks of attention scores.
        weights: size of the weights file; the training-state file is three times as large.
    """

    parameters: int
    memory: int
    weights: int


def footprint(plan: Plan, task: Task, encoding: Encoding) -> Footprint:
    """Compute the bytes that one run of a plan needs. Parameters are counted on the meta device."""
    with torch.device("meta"):
        count = sum(p.numel() for p in untrained(plan, task, encoding).parameters())
    size = getattr(torch, plan.dtype).itemsize
    moving = size if plan.autocast == "none" else getattr(torch, plan.autocast).itemsize
    of_layer = ACTIVATIONS * plan.width + 2 * (plan.hidden or 4 * plan.width)
    tokens = plan.batch * plan.train_length
    activations = tokens * (plan.layers * of_layer * moving + 3 * 4 * task.outputs)
    return Footprint(count, 4 * count * size + activations, count * size)  # gradients, and AdamW's two moments


def check_room(
    footprints: Sequence[Footprint], plans: Sequence[Plan], folder: Path, devices: Sequence[str]
) -> None:
    """Refuse plans that do not fit into memory or on the disk.

    Args:
        footprints: one footprint per group of runs that differ only in seed or learning rate.
        plans: all plans to run; each worker runs one plan at a time.
        folder: folder for the weights and states of the runs.
        devices: device of each worker; workers on the same device share its memory.

    Raises:
        StudyError: the plans do not fit.
    """
    largest = max(footprints, key=lambda need: need.memory)
    at_once = max(Counter(devices[: len(plans)]).values())
    together = at_once * largest.memory
    free = free_memory(torch.device(plans[0].device))
    if together > free:
        raise StudyError(
            f"training {at_once} model{'s' if at_once > 1 else ''} at a time on a device needs about "
            f"{_size(together)} of memory, but only {_size(free)} is free; use fewer --workers or a smaller batch "
            f"(one run has {largest.parameters:,} parameters and needs {_size(largest.memory)})"
        )
    files = len(plans) + 3 * min(len(devices), len(plans))
    check_disk(files * max(need.weights for need in footprints), folder, len(plans), "run")


def check_disk(wanted: int, folder: Path, count: int, what: str) -> None:
    """Raise a ``StudyError`` if ``folder``'s disk has fewer than ``wanted`` free bytes.

    The error message names what needs the space, such as "3 runs" if ``count`` is 3 and ``what`` is "run".
    """
    existing = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if wanted > free:
        raise StudyError(
            f"{count} {what}{'s' * (count > 1)} may write up to {_size(wanted)} to {str(folder)!r}, but only "
            f"{_size(free)} is free there; free some space, or choose another --output"
        )


def _size(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size > 2**30 else f"{size / 2**20:.1f} MiB"
