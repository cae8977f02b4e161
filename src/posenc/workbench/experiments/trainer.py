"""Carries out one plan: build the transformer, train it, test it, keep its weights."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

import posenc
from posenc.encodings import Encoding
from posenc.errors import StudyError
from posenc.workbench.experiments.evaluate import evaluate
from posenc.workbench.experiments.plan import Plan, Run
from posenc.workbench.tasks import IGNORE, Task, Text, task
from posenc.workbench.transformer import Transformer, TransformerConfig

WARM_UP = 0.05
"""Share of the steps over which the learning rate rises from 0."""
FLOOR = 0.05
"""Share of the learning rate that the cosine ends at."""

Progress = Callable[[int], None]
"""Called with the number of steps just done."""


def encoding(plan: Plan) -> Encoding:
    """The encoding of a plan; somebody's own class is imported.

    A schedule that depends on the length of a request is planned for the longest test, and trained so: no key is
    ever stale.
    """
    return posenc.encoding(
        plan.settings or plan.encoding,
        width=plan.width,
        heads=plan.heads,
        head_dim=plan.width // plan.heads,
        num_positions=plan.train_length,
        layers=plan.layers,
        total_length=plan.lengths[-1],
    )


def build(plan: Plan, made: Task) -> Transformer:
    """The transformer of a plan, with the plan's initial weights: the same for every encoding but its own."""
    config = TransformerConfig(
        made.vocabulary, outputs=made.outputs, width=plan.width, layers=plan.layers, heads=plan.heads
    )
    model = Transformer(config, encoding(plan)).initialise(plan.seed)
    return model.to(device=plan.device, dtype=getattr(torch, plan.dtype))


def carry_out(plan: Plan, text: Text, checkpoints: Path, progress: Progress = lambda steps: None) -> Run:
    """Train and test; the weights land in ``checkpoints/<plan id>.safetensors``."""
    started = time.perf_counter()
    made = task(plan.task, text, plan.lengths[-1])
    model = build(plan, made)
    final_loss = train(model, made, plan, progress)
    cells = evaluate(model.eval(), made, plan.lengths, plan.test_count)
    _save(model, checkpoints / f"{plan.id}.safetensors")
    parameters = sum(p.numel() for p in model.parameters())
    return Run(plan, cells, time.perf_counter() - started, parameters, final_loss)


def train(model: Transformer, made: Task, plan: Plan, progress: Progress) -> float:
    """AdamW with a short warm-up and a cosine; returns the mean loss of the last tenth."""
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=plan.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, plan.steps))
    generator = torch.Generator().manual_seed(plan.seed)
    losses = []
    for _ in range(plan.steps):
        batch = made.train_batch(generator, plan.batch)
        outputs = model(batch.tokens.to(plan.device)).flatten(0, 1)
        loss = F.cross_entropy(outputs, batch.targets.to(plan.device).flatten(), ignore_index=IGNORE)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        rate.step()
        losses.append(loss.detach())
        progress(1)
    tail = losses[-max(1, plan.steps // 10) :]
    return float(torch.stack(tail).mean())


def _rate(step: int, steps: int) -> float:
    warm = max(1, int(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * done))


def _save(model: Transformer, path: Path) -> None:
    """Write the weights under another name and move them: a file that is there is whole."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: p.contiguous() for name, p in model.state_dict().items()}, partial)
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        raise StudyError(
            f"weights cannot be written to {str(path.parent)!r}: {error}; make room and run the same command"
        ) from error
