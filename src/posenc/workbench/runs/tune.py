"""A short fine-tune of a small model under a method, so that its curves can be compared after it too."""

import copy
import hashlib
from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from posenc.encodings import Encoding
from posenc.workbench.runs.models import Ours

TOKENS = 1024
"""Bytes of one step."""
LEARNING_RATE = 1e-3


def tuned_identity(model: Ours, method: str, schedule: str, steps: int, length: int) -> str:
    """The identity of what ``tuned`` returns, known before it is made."""
    said = f"{model.identity} {method} {schedule} {steps} {length}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def tuned(
    model: Ours,
    encoding: Encoding,
    data: Int[Tensor, " n"],
    steps: int,
    length: int,
    identity: str,
    progress: Callable[[int], None],
) -> Ours:
    """A copy of ``model`` trained on windows of ``length`` with ``encoding``; every method gets the same windows.

    AdamW at a constant rate, an eighth of that of the training.
    """
    made = copy.deepcopy(model.model).train()
    made.encoding = encoding
    optimiser = torch.optim.AdamW(
        made.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    generator = torch.Generator().manual_seed(0)
    batch = max(1, TOKENS // length)
    for _ in range(steps):
        starts = torch.randint(len(data) - length, (batch,), generator=generator)
        rows = data[starts[:, None] + torch.arange(length + 1)]
        loss = F.cross_entropy(made(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimiser.step()
        progress(batch * length)
    made.encoding = model.model.encoding
    return Ours(made.eval(), identity, model.original_length, model.name)
