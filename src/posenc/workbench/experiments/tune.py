"""A short fine-tune of a model under a method, so that its curves can be compared after it too."""

import hashlib
from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from posenc.encodings import Encoding
from posenc.workbench.experiments.models import LanguageModel

TOKENS = 1024
"""Tokens of one step, or one window where windows are longer."""


def tuned_identity(model: LanguageModel, method: str, schedule: str, steps: int, length: int) -> str:
    """The identity of what ``tuned`` returns, known before it is made."""
    said = f"{model.identity} {method} {schedule} {steps} {length}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def tuned(
    model: LanguageModel,
    encoding: Encoding,
    data: Int[Tensor, " n"],
    steps: int,
    length: int,
    identity: str,
    progress: Callable[[float], None],
) -> LanguageModel:
    """A copy of ``model`` trained on windows of ``length`` with ``encoding``; every method gets the same windows.

    AdamW at the model's constant rate. ``data`` shares nothing with the documents that are scored.
    """
    made = model.copied(identity)
    made.model.train()
    rate, betas = model.learning_rate, (0.9, 0.98)
    optimiser = torch.optim.AdamW(made.model.parameters(), lr=rate, betas=betas, weight_decay=0.01, fused=True)
    generator = torch.Generator().manual_seed(0)
    batch = max(1, TOKENS // length)
    with made.placed(encoding):
        for _ in range(steps):
            starts = torch.randint(len(data) - length, (batch,), generator=generator)
            rows = data[starts[:, None] + torch.arange(length + 1)]
            logits = made.logits(rows[:, :-1]).flatten(0, 1)
            loss = F.cross_entropy(logits, rows[:, 1:].flatten().to(logits.device))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(made.model.parameters(), 1.0)
            optimiser.step()
            progress(batch * length)
    made.model.eval()
    return made
